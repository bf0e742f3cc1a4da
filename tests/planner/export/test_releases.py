"""What the named releases insist on before they train, what they cannot say, and the nearest that they can."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from planner.export import NotExportable, possible
from planner.plans.scenario_rows import SCENARIOS
from planner.plans.scenarios import Scenario, answer_of, shipped_context
from planner.search import search
from tests.planner.export.samples import (
    SMALL,
    STAMP,
    TOKENS,
    TWO_NODES,
    deepspeed_option,
    fsdp_option,
    option_of,
    text_of,
)
from tests.planner.export.test_exports import known, megatron_values, titan_names
from tests.planner.requests.samples import CONTEXT
from tests.planner.search.problems import problem_of

OWN = {
    "fsdp1": {"accelerate-fsdp", "slurm", "kubernetes", "skypilot"},
    "fsdp2": {"accelerate-fsdp", "slurm", "kubernetes", "skypilot"},
    "deepspeed": {"deepspeed", "slurm", "kubernetes", "skypilot"},
    "megatron": {"megatron", "slurm", "kubernetes", "skypilot"},
    "ddp": {"slurm", "kubernetes", "skypilot"},
}
"""Engine → the files that every option of it has."""
LATENT = {
    "family": "deepseek_v3", "layers": 8, "hidden_size": 2048, "heads": 16, "kv_heads": 16, "ffn_size": 8192,
    "vocab_size": 32000, "norm": "rmsnorm",
    "mla": {"q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128},
    "moe": {"experts": 16, "top_k": 4, "shared_experts": 2, "expert_ffn_size": 1024, "shared_ffn_size": 2048,
            "first_dense_layers": 3},
}  # fmt: skip


def megatron(*changes: tuple[str, Any], stage: int = 1, tp: int = 2, pp: int = 1) -> dict[str, Any]:
    search_ = {"zero_stages": [stage], "tp": [tp], "pp": [pp], "recompute": ["full"], "micro_batch_sizes": [1]}
    return option_of(TWO_NODES, SMALL, ("/engines", ["megatron"]), ("/search", search_), *changes)


def changed(option: dict[str, Any], **members: Any) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(option))
    copied["estimate"] |= members
    return copied


def scenarios() -> list[object]:
    cheap = {"full-fine-tune-7b", "seventy-on-64", "slow-ethernet", "million-tokens"}
    return [
        pytest.param(row, id=row.key, marks=() if row.key in cheap else (pytest.mark.slow,))
        for row in SCENARIOS
        if row.key != "infeasible"
    ]


@pytest.mark.parametrize("scenario", scenarios())
def test_every_option_of_the_worked_plans_has_every_file_of_its_engine(scenario: Scenario) -> None:
    context = shipped_context()
    options = answer_of(scenario, context)["options"]
    assert options
    for option in options:
        able = possible(option, STAMP, context, TOKENS)
        assert OWN[option["estimate"]["sharding"]["engine"]] <= set(able), option["estimate"]


@pytest.mark.parametrize(("stage", "tp", "wanted"), [(1, 2, "=1;"), (1, 1, "=8;"), (3, 2, "unset ")])
def test_megatron_finds_the_launch_queues_it_insists_on(stage: int, tp: int, wanted: str) -> None:
    # validate_args of the release stops tensor parallelism without 1 (before Blackwell), and its FSDP with 1.
    option = megatron(stage=stage, tp=tp)
    for key in ("slurm", "kubernetes", "skypilot", "megatron"):
        said = re.search(r"(export|unset) CUDA_DEVICE_MAX_CONNECTIONS(=\d)?;", text_of(key, option))
        assert said is not None, key
        assert wanted in said[0]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_megatrons_fsdp_comes_with_its_checkpoint_format_and_overlap_with_shards(stage: int) -> None:
    values = megatron_values(text_of("megatron", megatron(stage=stage)))
    assert {name.removeprefix("--") for name in values} <= known("megatron")
    assert ("--use-megatron-fsdp" in values) is (stage >= 2)
    assert values.get("--ckpt-format") == ("fsdp_dtensor" if stage >= 2 else None)
    assert "--overlap-grad-reduce" in values
    assert ("--overlap-param-gather" in values) is (stage >= 1)


def test_megatrons_host_offload_comes_with_the_optimizer_that_can() -> None:
    option = megatron()
    hosted = changed(option, offload={"optimizer": "cpu"})
    assert {"--optimizer-cpu-offload", "--use-precision-aware-optimizer"} <= set(
        megatron_values(text_of("megatron", hosted))
    )
    assert "--use-precision-aware-optimizer" not in megatron_values(text_of("megatron", option))


def test_latent_attention_and_dense_first_layers_are_written_out() -> None:
    values = megatron_values(text_of("megatron", megatron(("/model", {"architecture": LATENT}), tp=1, pp=2)))
    assert {name.removeprefix("--") for name in values} <= known("megatron")
    assert "--multi-latent-attention" in values
    assert "--group-query-attention" not in values
    latent = ("q-lora-rank", "kv-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim")
    assert [values[f"--{name}"] for name in latent] == ["512", "256", "128", "64", "128"]
    assert values["--moe-layer-freq"] == "([0]*3+[1]*5)"
    # The width is that of all shared experts together.
    assert values["--moe-shared-expert-intermediate-size"] == "2048"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"parallel_block": True}, "attention and MLP side by side"),
        ({"sliding_window": 1024}, "a window of 1024 in a sequence of 4096"),
    ],
)
def test_megatron_says_what_of_a_model_it_cannot_build(more: dict[str, Any], said: str) -> None:
    plain = {name: value for name, value in LATENT.items() if name not in ("mla", "moe")} | {"family": "llama"}
    option = fsdp_option(("/model", {"architecture": plain | more}))
    with pytest.raises(NotExportable, match=said):
        text_of("megatron", option)


def titan(option: dict[str, Any]) -> dict[str, str]:
    words = [
        word for line in text_of("torchtitan", option).splitlines() if line[0] != "#" for word in shlex.split(line)
    ]
    return {name.removeprefix("--"): value for name, _, value in (word.partition("=") for word in words)}


def test_a_pipeline_is_written_for_torchtitan() -> None:
    search_ = {"zero_stages": [1], "tp": [2], "pp": [4], "recompute": ["none"], "micro_batch_sizes": [1]}
    batch = ("/workload/global_batch_tokens", 64 * 4096)
    option = option_of(TWO_NODES, ("/engines", ["megatron"]), ("/search", search_), batch)
    estimate = option["estimate"]
    degrees, values = estimate["parallelism"], titan(option)
    assert titan_names(text_of("torchtitan", option)) <= known("torchtitan")
    assert values["parallelism.pipeline_parallel_degree"] == "4"
    chunks = degrees["vpp"]
    assert values["parallelism.pipeline_parallel_schedule"] == ("Interleaved1F1B" if chunks > 1 else "1F1B")
    layers = values.get("parallelism.pipeline_parallel_layers_per_stage")
    assert layers == (str(32 // (4 * chunks)) if chunks > 1 else None)
    # All micro-batches of a step pass through the pipeline as one local batch.
    ranks = degrees["dp_replicate"] * degrees["dp_shard"]
    assert int(values["training.local_batch_size"]) * ranks == estimate["batch"]["global_batch_size"]
    assert "bf16-master-fp32grad here is bf16-mixed" in text_of("torchtitan", option)


def test_offload_is_a_switch_for_torchtitan() -> None:
    values = titan(changed(fsdp_option(), offload={"optimizer": "cpu", "parameters": "cpu"}))
    assert values["training.enable_cpu_offload"] == ""


@pytest.mark.parametrize(
    ("key", "members", "said"),
    [
        ("torchtitan", {"model": "mixtral-8x7b"}, r"configuration of mixtral-8x7b; the nearest name is llama-3"),
        ("torchtitan", {"optimizer": "lion"}, "no optimizer lion; it has .*nearest is adamw"),
        ("torchtitan", {"precision": "fp16-mixed"}, "no setting for precision fp16-mixed; it has .*bf16-mixed"),
        ("torchtitan", {"adapter": {"method": "lora", "rank": 8}}, "trains an adapter"),
        ("accelerate-fsdp", {"precision": "fp16-master"}, "precision fp16-master; it has .*nearest is bf16-mixed"),
        ("accelerate-fsdp", {"recompute": {"mode": "full", "every": 2}}, "the option has full every 2"),
        ("megatron", {"optimizer": "lion"}, "no optimizer lion; it has .*nearest is adamw"),
        ("megatron", {"precision": "bf16-pure"}, "precision bf16-pure; it has .*nearest is bf16-master-fp32grad"),
        ("deepspeed", {"precision": "fp8-mixed"}, "precision fp8-mixed; it has .*nearest is bf16-master"),
        ("accelerate-deepspeed", {"precision": "bf16-pure"}, "precision bf16-pure; it has .*nearest is bf16-master"),
    ],
)
def test_a_refusal_names_the_value_and_the_nearest(key: str, members: dict[str, Any], said: str) -> None:
    with pytest.raises(NotExportable, match=said):
        text_of(key, changed(fsdp_option(), **members))


def test_a_degree_that_a_format_lacks_points_at_the_file_that_has_it() -> None:
    with pytest.raises(NotExportable, match=r"the option has tp=2: choose an option with tp=1, or the megatron file"):
        text_of("deepspeed", megatron())


def test_deepspeed_holds_sixteen_bit_states_from_stage_one_on() -> None:
    config = json.loads(text_of("deepspeed", changed(deepspeed_option(), precision="bf16-pure", offload={})))
    assert config["zero_optimization"]["stage"] >= 1
    assert config["bf16"] == {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
    # The search offers no option that DeepSpeed would not start.
    machine = ("/hardware", {"accelerators": ["h100-sxm5-80gb"], "max_count": 1})
    axes = ("/search", {"zero_stages": [0], "tp": [1], "micro_batch_sizes": [1]})
    asked = problem_of(machine, axes, SMALL, ("/engines", ["deepspeed"]), ("/precisions", ["bf16-pure"]))
    found = search(asked, lambda done, total: None, lambda: False)
    assert found["rejections"] == {"engine_unsupported": found["search"]["candidates"]}


def test_an_adapter_is_said_to_be_the_scripts() -> None:
    tuned = changed(fsdp_option(), adapter={"method": "lora", "rank": 8, "targets": "all-linear", "base_dtype": "bf16"})
    assert "trains lora of rank 8 on all-linear, over a base held in bf16" in text_of("accelerate-fsdp", tuned)
    assert possible(tuned, STAMP, CONTEXT, TOKENS)
