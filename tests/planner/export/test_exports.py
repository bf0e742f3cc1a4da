"""Launch files: parsed back by their own language, equal to what the plan decided, and safe from names."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from planner.errors import NotFound
from planner.export import FORMATS, NotExportable, possible, render
from planner.export.formats import megatron as megatron_format
from planner.export.formats import torchtitan as torchtitan_format
from planner.export.formats.skypilot import CLOUDS
from tests.planner.export.samples import (
    STAMP,
    TOKENS,
    deepspeed_option,
    fsdp_option,
    megatron_option,
    option_of,
    text_of,
)
from tests.planner.requests.samples import CONTEXT, LLAMA

NAMES = Path(__file__).with_name("argument_names.json")
SCHEMAS = Path(__file__).with_name("schemas")


@pytest.fixture(scope="module")
def fsdp() -> dict[str, Any]:
    return fsdp_option()


@pytest.fixture(scope="module")
def deepspeed() -> dict[str, Any]:
    return deepspeed_option()


@pytest.fixture(scope="module")
def megatron() -> dict[str, Any]:
    return megatron_option()


def bash(text: str) -> None:
    run = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def files_in(script: str) -> dict[str, str]:
    """What the script's heredocs write, by name."""
    pattern = r"cat > \"\$WORK/([a-z.]+)\" <<'(\w+)'\n(.*?)\n\2\n"
    return {name: body for name, _, body in re.findall(pattern, script, flags=re.DOTALL)}


def test_every_format_of_the_contract_is_there() -> None:
    promised = {"deepspeed", "accelerate-fsdp", "accelerate-deepspeed", "torchtitan", "megatron", "slurm"}
    assert set(FORMATS) == promised | {"kubernetes", "skypilot"}


@pytest.mark.parametrize("key", FORMATS)
def test_a_common_option_has_every_file(key: str, fsdp: dict[str, Any]) -> None:
    file = render(key, fsdp, STAMP, CONTEXT, TOKENS)
    assert re.fullmatch(r"[a-z0-9.-]+", file.name)
    assert STAMP.plan in file.text
    assert "option 1" in file.text
    assert "html" not in file.media_type


def test_deepspeed_json_holds_the_batch_and_the_stage(deepspeed: dict[str, Any]) -> None:
    config = json.loads(text_of("deepspeed", deepspeed))
    batch = deepspeed["estimate"]["batch"]
    micro, steps = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    assert micro == batch["micro_batch_size"]
    assert config["train_batch_size"] == micro * steps * 16 == batch["global_batch_size"]
    assert config["zero_optimization"]["stage"] == deepspeed["estimate"]["sharding"]["zero_stage"]
    assert config["zero_optimization"]["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert config["torch_autocast"] == {"enabled": True, "dtype": "bfloat16"}


def test_accelerate_fsdp_shards_as_planned(fsdp: dict[str, Any]) -> None:
    (config,) = documents(text_of("accelerate-fsdp", fsdp))
    assert (config["distributed_type"], config["mixed_precision"]) == ("FSDP", "bf16")
    assert (config["num_machines"], config["num_processes"]) == (2, 16)
    plugin = config["fsdp_config"]
    assert plugin["fsdp_version"] == 2
    assert plugin["fsdp_reshard_after_forward"] is (fsdp["estimate"]["sharding"]["zero_stage"] == 3)
    assert plugin["fsdp_activation_checkpointing"] is (fsdp["estimate"]["recompute"] == "full")
    degrees = fsdp["estimate"]["parallelism"]
    mesh = config.get("parallelism_config", {"parallelism_config_dp_shard_size": 16})
    assert mesh["parallelism_config_dp_shard_size"] == degrees["dp_shard"]


def test_hybrid_sharding_is_a_mesh_of_two(fsdp: dict[str, Any]) -> None:
    hybrid = json.loads(json.dumps(fsdp))
    hybrid["estimate"]["parallelism"] |= {"dp_replicate": 2, "dp_shard": 8, "tp": 1}
    (config,) = documents(text_of("accelerate-fsdp", hybrid))
    mesh = config["parallelism_config"]
    assert mesh["parallelism_config_dp_replicate_size"] * mesh["parallelism_config_dp_shard_size"] == 16
    with pytest.raises(NotExportable, match="one copy a node"):
        text_of("deepspeed", hybrid)


def test_accelerate_deepspeed_names_the_plugin(deepspeed: dict[str, Any]) -> None:
    (config,) = documents(text_of("accelerate-deepspeed", deepspeed))
    assert config["distributed_type"] == "DEEPSPEED"
    plugin = config["deepspeed_config"]
    assert plugin["zero_stage"] == deepspeed["estimate"]["sharding"]["zero_stage"]
    assert plugin["offload_optimizer_device"] == "cpu"


def known(framework: str) -> set[str]:
    return set(json.loads(NAMES.read_text())[framework]["names"])


def test_torchtitan_overrides_are_known_words_and_toml(fsdp: dict[str, Any]) -> None:
    text = text_of("torchtitan", fsdp)
    tree = tomllib.loads(text)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    words = shlex.split(" ".join(lines))
    values = dict(word.removeprefix("--").split("=", 1) for word in words)
    assert set(values) <= known("torchtitan")
    assert values["training.seq_len"] == str(tree["--training"]["seq_len"]) == "4096"
    assert values["parallelism.data_parallel_shard_degree"] == str(fsdp["estimate"]["parallelism"]["dp_shard"])
    assert int(values["training.steps"]) == -(-TOKENS // (16 * 4096))


def test_the_lists_of_names_are_of_the_releases_that_the_files_name() -> None:
    lists = json.loads(NAMES.read_text())
    assert lists["torchtitan"]["release"] == torchtitan_format.RELEASE
    assert lists["megatron"]["release"] == megatron_format.RELEASE
    for row in lists.values():
        assert row["source"].startswith("https://github.com/")


def titan_names(text: str) -> set[str]:
    words = shlex.split(" ".join(line for line in text.splitlines() if not line.startswith("#")))
    return {word.removeprefix("--").split("=", 1)[0] for word in words}


def test_a_torchtitan_override_that_no_release_has_is_noticed(fsdp: dict[str, Any]) -> None:
    text = text_of("torchtitan", fsdp)
    assert titan_names(text) <= known("torchtitan")
    mutated = text.replace("--training.seq_len", "--training.sequence_length")
    assert not titan_names(mutated) <= known("torchtitan")


def megatron_values(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pairs = (shlex.split(line) for line in lines)
    return {words[0]: words[1] if len(words) > 1 else "" for words in pairs}


def test_megatron_arguments_are_known_words(megatron: dict[str, Any]) -> None:
    values = megatron_values(text_of("megatron", megatron))
    assert {name.removeprefix("--") for name in values} <= known("megatron")
    assert values["--tensor-model-parallel-size"] == values["--pipeline-model-parallel-size"] == "2"
    assert values["--num-layers"] == "32"
    assert values["--num-query-groups"] == "8"
    assert (values["--recompute-granularity"], values["--recompute-method"]) == ("full", "uniform")
    assert "--use-distributed-optimizer" in values
    assert "--use-megatron-fsdp" not in values
    steps = -(-TOKENS // (16 * 4096))
    assert values["--train-samples"] == str(steps * 16)


def test_uneven_stages_are_listed_for_megatron() -> None:
    option = option_of(
        ("/model", {"config": {**LLAMA, "num_hidden_layers": 30}}),
        ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "providers": ["aws"], "min_count": 8, "max_count": 8}),
        ("/engines", ["megatron"]),
        ("/search", {"zero_stages": [1], "tp": [2], "pp": [4], "recompute": ["full"]}),
    )
    assert option["estimate"]["precision"] == "bf16-master-fp32grad"
    values = megatron_values(text_of("megatron", option))
    stages = re.fullmatch(r"Et\*(\d+)\|t\*(\d+)\|t\*(\d+)\|t\*(\d+)L", values["--pipeline-model-parallel-layout"])
    assert stages is not None
    assert sum(int(layers) for layers in stages.groups()) == 30
    assert "--pipeline-model-parallel-layout" not in megatron_values(text_of("megatron", megatron_option()))


@pytest.mark.parametrize("key", ["accelerate-fsdp", "accelerate-deepspeed"])
def test_accelerate_configurations_are_of_known_words(
    key: str, fsdp: dict[str, Any], deepspeed: dict[str, Any]
) -> None:
    for option in (fsdp, deepspeed):
        (config,) = documents(text_of(key, option))
        assert set(config) <= known("accelerate-config")
        for part in ("fsdp_config", "deepspeed_config", "parallelism_config"):
            assert set(config.get(part, {})) <= known("accelerate")


def test_a_name_that_no_release_has_is_noticed(megatron: dict[str, Any]) -> None:
    mutated = text_of("megatron", megatron).replace("--micro-batch-size", "--micro-batchsize")
    assert not {name.removeprefix("--") for name in megatron_values(mutated)} <= known("megatron")


@pytest.mark.parametrize("engine", ["fsdp", "deepspeed", "megatron"])
def test_slurm_script_is_a_shell_script_with_its_configuration(engine: str, request: pytest.FixtureRequest) -> None:
    option = request.getfixturevalue(engine)
    text = text_of("slurm", option)
    bash(text)
    assert text.startswith("#!/usr/bin/env bash\n")
    head = dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", text, flags=re.MULTILINE))
    assert (head["nodes"], head["gpus-per-node"], head["ntasks-per-node"]) == ("2", "8", "1")
    assert re.fullmatch(r"\d+-\d\d:\d\d:00", head["time"])
    # Everything after the first command would be a plain comment to sbatch.
    assert text.index("#SBATCH") < text.rindex("#SBATCH") < text.index("set -euo")
    held = files_in(text)
    if engine == "fsdp":
        assert documents(held["accelerate.yaml"]) == documents(text_of("accelerate-fsdp", option))
    if engine == "deepspeed":
        assert json.loads(held["deepspeed.json"]) == json.loads(text_of("deepspeed", option))
    if engine == "megatron":
        step = shlex.split(next(line for line in text.splitlines() if line.startswith("srun")))[-1]
        assert "--num-layers 32" in step
        bash(step)


def test_a_broken_script_is_noticed(fsdp: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        bash(
            text_of("slurm", fsdp).replace(
                "srun --kill-on-bad-exit=1 bash -c '", "srun --kill-on-bad-exit=1 bash -c ", 1
            )
        )


def test_kubernetes_job_asks_for_every_device(fsdp: dict[str, Any]) -> None:
    config, job = documents(text_of("kubernetes", fsdp))
    assert (config["kind"], job["kind"], job["apiVersion"]) == ("ConfigMap", "PyTorchJob", "kubeflow.org/v1")
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "user-queue"}
    replicas = job["spec"]["pytorchReplicaSpecs"]
    devices = 0
    for replica in replicas.values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["name"] == "pytorch"
        devices += replica["replicas"] * container["resources"]["limits"]["nvidia.com/gpu"]
        bash(container["command"][-1])
        volumes = {volume["name"] for volume in replica["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert devices == 16
    assert documents(config["data"]["accelerate.yaml"]) == documents(text_of("accelerate-fsdp", fsdp))


def test_skypilot_task_names_cloud_and_devices(fsdp: dict[str, Any]) -> None:
    (task,) = documents(text_of("skypilot", fsdp))
    assert task["num_nodes"] == 2
    assert task["resources"]["accelerators"] == "H100:8"
    assert (task["resources"]["cloud"], task["resources"]["use_spot"]) == ("aws", False)
    bash(task["run"])
    assert "accelerate.yaml" in files_in(task["run"])


def against(schema: str, document: Any) -> None:
    rules = json.loads((SCHEMAS / f"{schema}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(rules)
    jsonschema.validate(document, rules, jsonschema.Draft202012Validator)


@pytest.mark.parametrize("engine", ["fsdp", "deepspeed", "megatron"])
def test_cluster_files_meet_their_schemas(engine: str, request: pytest.FixtureRequest) -> None:
    option = request.getfixturevalue(engine)
    *maps, job = documents(text_of("kubernetes", option))
    against("pytorchjob", job)
    for document in maps:
        against("configmap", document)
    (task,) = documents(text_of("skypilot", option))
    against("skypilot", task)


def test_every_cloud_of_the_table_is_one_of_the_schema() -> None:
    rules = json.loads((SCHEMAS / "skypilot.json").read_text())
    assert set(CLOUDS.values()) <= set(rules["properties"]["resources"]["properties"]["cloud"]["enum"])


@pytest.mark.parametrize(
    ("key", "schema", "before", "after"),
    [
        ("kubernetes", "pytorchjob", "pytorchReplicaSpecs:", "pytorchReplicas:"),
        ("kubernetes", "pytorchjob", "kueue.x-k8s.io/queue-name:", "kueue/queue:"),
        ("kubernetes", "pytorchjob", "nvidia.com/gpu: 8", "nvidia.com/gpu: 0"),
        ("kubernetes", "pytorchjob", "restartPolicy: OnFailure", "restartPolicy: Sometimes"),
        ("kubernetes", "pytorchjob", "mountPath: /dev/shm", "mountPath: dev/shm"),
        ("skypilot", "skypilot", "num_nodes:", "nodes:"),
        ("skypilot", "skypilot", "accelerators: H100:8", "accelerators: H100x8"),
        ("skypilot", "skypilot", "use_spot: false", "use_spot: perhaps"),
        ("skypilot", "skypilot", "cloud: aws", "cloud: awful"),
    ],
)
def test_a_mutated_cluster_file_fails_its_schema(
    key: str, schema: str, before: str, after: str, fsdp: dict[str, Any]
) -> None:
    text = text_of(key, fsdp)
    assert before in text
    with pytest.raises(jsonschema.ValidationError):
        against(schema, documents(text.replace(before, after))[-1])


def test_an_unknown_format_lists_the_known(fsdp: dict[str, Any]) -> None:
    with pytest.raises(NotFound, match="slurm"):
        render("terraform", fsdp, STAMP, CONTEXT, TOKENS)


def test_a_pipeline_has_no_fsdp_file(megatron: dict[str, Any]) -> None:
    able = possible(megatron, STAMP, CONTEXT, TOKENS)
    assert able == ("kubernetes", "megatron", "skypilot", "slurm", "torchtitan")
    with pytest.raises(NotExportable, match="pp=2"):
        text_of("accelerate-fsdp", megatron)


def test_another_engine_is_said_in_the_file(fsdp: dict[str, Any]) -> None:
    assert "Planned for fsdp2" in text_of("megatron", fsdp)
    assert "Planned for" not in text_of("accelerate-fsdp", fsdp)


HOSTILE = ("a'; touch /tmp/x; '", "x\n#SBATCH --uid=0", "$(id)", "{{7*7}}", "a: b", "\u202eevil", "x" * 200, "")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("key", FORMATS)
def test_no_free_text_reaches_a_file(key: str, text: str, fsdp: dict[str, Any]) -> None:
    with pytest.raises(NotExportable):
        render(key, fsdp, replace(STAMP, plan=text), CONTEXT, TOKENS)
    placed = json.loads(json.dumps(fsdp))
    placed["offer"] |= {"provider": text, "region": text, "pricing": text}
    written = render(key, placed, STAMP, CONTEXT, TOKENS).text
    assert not text or len(text) == 1 or text not in written
    plain = render(key, fsdp, STAMP, CONTEXT, TOKENS).text
    assert abs(len(written.splitlines()) - len(plain.splitlines())) <= 2


def test_a_job_without_an_end_says_so(megatron: dict[str, Any]) -> None:
    text = render("megatron", megatron, STAMP, CONTEXT, None).text
    assert "no number of tokens" in text
    assert "--train-samples" not in megatron_values(text)
