"""Every launch file for Accelerate and DeepSpeed read by the library itself; a mutated one is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.planner.export.samples import DEVICES, SMALL, deepspeed_option, fsdp_option, hybrid_option, text_of
from tests.reallib.exports.reading import accelerate_environment, deepspeed_config, deepspeed_plugin, fsdp_plugin

pytestmark = [pytest.mark.reallib, pytest.mark.filterwarnings("ignore")]
SKIP = "NOT READ BY THE REAL LIBRARY: {} is not installed; pip install -r tests/requirements-reallib.txt"
accelerate = pytest.mark.skipif(not find_spec("accelerate"), reason=SKIP.format("accelerate"))
deepspeed = pytest.mark.skipif(not find_spec("deepspeed"), reason=SKIP.format("deepspeed"))


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


Written = Callable[[str, str], Path]


@accelerate
@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_accelerate_makes_the_fsdp_plugin_of_the_plan(stage: int, recompute: str, written: Written) -> None:
    option = fsdp_option(("/search/zero_stages", [stage]), ("/search/recompute", [recompute]), SMALL)
    plugin = fsdp_plugin(written("fsdp.yaml", text_of("accelerate-fsdp", option)))
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is (stage == 3)
    assert plugin.activation_checkpointing is (recompute == "full")
    assert type(plugin.cpu_offload).__name__ == "OffloadPolicy"
    assert "bfloat16" in str(plugin.mixed_precision_policy.param_dtype)


@accelerate
def test_accelerate_reads_the_first_version(written: Written) -> None:
    option = fsdp_option(("/engines", ["fsdp1"]), ("/search/zero_stages", [2]))
    # The plugin of the first version asks for a device as soon as it is made: here it is what it would be made from.
    with accelerate_environment(written("fsdp.yaml", text_of("accelerate-fsdp", option))) as environment:
        assert environment["FSDP_VERSION"] == "1"
        assert environment["FSDP_SHARDING_STRATEGY"] in ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2")
        assert environment["FSDP_USE_ORIG_PARAMS"] == "true"


@accelerate
def test_accelerate_makes_the_mesh_of_the_plan(written: Written) -> None:
    from accelerate.parallelism_config import ParallelismConfig  # noqa: PLC0415 - known to be installed

    with accelerate_environment(written("fsdp.yaml", text_of("accelerate-fsdp", hybrid_option()))):
        mesh = ParallelismConfig()
    assert (mesh.dp_replicate_size, mesh.dp_shard_size, mesh.tp_size, mesh.cp_size) == (2, 8, 1, 1)
    assert mesh.total_size == DEVICES


@accelerate
@deepspeed
def test_accelerate_makes_the_deepspeed_plugin_of_the_plan(written: Written) -> None:
    option = deepspeed_option()
    plugin = deepspeed_plugin(written("deepspeed.yaml", text_of("accelerate-deepspeed", option)))
    assert plugin.zero_stage == option["estimate"]["sharding"]["zero_stage"]
    assert plugin.offload_optimizer_device == "cpu"
    assert plugin.deepspeed_config["zero_optimization"]["stage"] == plugin.zero_stage
    batch = option["estimate"]["batch"]
    steps = batch["global_batch_size"] // batch["micro_batch_size"] // DEVICES
    assert plugin.deepspeed_config["gradient_accumulation_steps"] == steps


@deepspeed
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed_reads_sixteen_bit_states(stage: int, written: Written) -> None:
    changes = (("/search/zero_stages", [stage]), ("/search/offload", ["none"]), ("/precisions", ["bf16-pure"]))
    text = text_of("deepspeed", deepspeed_option(*changes, SMALL))
    config = deepspeed_config(written("deepspeed.json", text), DEVICES).bfloat16_config
    assert (config.enabled, config.bf16_master_weights_and_grads, config.bf16_optimizer_states) == (True, True, True)
    bare = text.replace('"stage": ' + str(stage), '"stage": 0')
    with pytest.raises(AssertionError, match="only supported with ZeRO Stage 1, 2, or 3"):
        deepspeed_config(written("bare.json", bare), DEVICES)


@deepspeed
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-master-fp32grad", "bf16-master", "fp16-master"])
def test_deepspeed_reads_its_configuration(stage: int, precision: str, written: Written) -> None:
    offload = ["none"] if stage == 0 else ["cpu"]
    changes = (("/search/zero_stages", [stage]), ("/search/offload", offload), ("/precisions", [precision]))
    # At stage 0 every rank holds all states of the model.
    option = deepspeed_option(*changes, SMALL)
    config = deepspeed_config(written("deepspeed.json", text_of("deepspeed", option)), DEVICES)
    batch = option["estimate"]["batch"]
    assert config.train_batch_size == batch["global_batch_size"]
    assert config.train_micro_batch_size_per_gpu == batch["micro_batch_size"]
    assert config.zero_config.stage == stage
    assert config.torch_autocast_enabled is (precision == "bf16-mixed")
    assert config.bfloat16_config.enabled is precision.startswith("bf16-master")
    assert config.float16_config.enabled is (precision == "fp16-master")
    if stage:
        assert config.zero_config.offload_optimizer.device == "cpu"


@deepspeed
@pytest.mark.parametrize(
    ("change", "value"),
    [
        (("zero_optimization", "stage"), 7),
        (("zero_optimization", "offload_optimizer", "device"), "moon"),
        (("train_batch_size",), 17),
        (("gradient_accumulation_steps",), 5),
        (("torch_autocast", "dtype"), "bfloat17"),
    ],
)
def test_deepspeed_refuses_a_mutated_configuration(change: tuple[str, ...], value: Any, written: Written) -> None:
    config = json.loads(text_of("deepspeed", deepspeed_option()))
    place = config
    for name in change[:-1]:
        place = place[name]
    assert change[-1] in place
    place[change[-1]] = value
    path = written("deepspeed.json", json.dumps(config))
    with pytest.raises(Exception, match=r"."):
        deepspeed_config(path, DEVICES)


@accelerate
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("num_processes:", "number_of_processes:"),
        ("fsdp_reshard_after_forward:", "fsdp_reshard_after_backward:"),
        ("TRANSFORMER_BASED_WRAP", "TRANSFORMER_WRAP"),
        ("SHARDED_STATE_DICT", "SHARED_STATE_DICT"),
        ("mixed_precision: bf16", "mixed_precision: bf17"),
        ("fsdp_version: 2", "fsdp_version: 3"),
    ],
)
def test_accelerate_refuses_a_mutated_fsdp_configuration(before: str, after: str, written: Written) -> None:
    text = text_of("accelerate-fsdp", fsdp_option())
    assert before in text
    path = written("fsdp.yaml", text.replace(before, after))
    with pytest.raises((ValueError, KeyError, NotImplementedError)):
        fsdp_plugin(path)


@accelerate
@deepspeed
@pytest.mark.parametrize(("before", "after"), [("zero_stage:", "zero_level:"), ("DEEPSPEED", "DEEPERSPEED")])
def test_accelerate_refuses_a_mutated_deepspeed_configuration(before: str, after: str, written: Written) -> None:
    text = text_of("accelerate-deepspeed", deepspeed_option())
    assert before in text
    path = written("deepspeed.yaml", text.replace(before, after))
    with pytest.raises((ValueError, KeyError, AttributeError)):
        deepspeed_plugin(path)
