"""Accelerate's YAML for DeepSpeed. Source: Accelerate's DeepSpeed plugin, release 1.13."""

from __future__ import annotations

from typing import Any

from accounting.vocabulary import Engine
from planner.export.base import WHOLE_SHARDING, Format, Launch, NotExportable, commented
from planner.export.formats.accelerate_fsdp import cluster
from planner.export.formats.deepspeed import zero
from planner.export.texts import yaml_text

MIXED = {"fp32": "no", "bf16-master": "bf16", "bf16-master-fp32grad": "bf16", "fp16-master": "fp16"}
MIXED |= {"bf16-mixed": "bf16", "fp16-mixed": "fp16"}


def write(launch: Launch) -> str:
    """A whole configuration for `accelerate launch --config_file`."""
    launch.without("tp", "cp", "pp", "ep")
    launch.noted_engine("deepspeed")
    precision = launch.recipe.precision
    if precision.name not in MIXED:
        raise NotExportable(
            f"DeepSpeed through Accelerate has no setting for precision {precision.name or 'of your own'}; it has "
            f"{', '.join(MIXED)}, the nearest is bf16-master; the deepspeed file has more"
        )
    if precision.name.endswith("-mixed"):
        launch.note(
            "Through Accelerate DeepSpeed holds 16-bit weights beside an fp32 master copy; for autocast over fp32 "
            "weights use the deepspeed export."
        )
    block = zero(launch)
    stage = 0 if launch.recipe.engine is Engine.DDP else launch.recipe.zero_stage
    plugin: dict[str, Any] = {
        "zero_stage": stage,
        "gradient_accumulation_steps": launch.degree("micro_batches"),
        "gradient_clipping": 1.0,
        "offload_optimizer_device": block.get("offload_optimizer", {}).get("device", "none"),
        "offload_param_device": block.get("offload_param", {}).get("device", "none"),
        "zero3_init_flag": stage == WHOLE_SHARDING,
        "zero3_save_16bit_model": stage == WHOLE_SHARDING,
    }
    config = cluster(launch) | {
        "distributed_type": "DEEPSPEED",
        "mixed_precision": MIXED[precision.name],
        "deepspeed_config": plugin,
    }
    return commented(launch.comment()) + yaml_text(config)


FORMAT = Format(
    key="accelerate-deepspeed",
    title="Accelerate, DeepSpeed",
    media_type="application/yaml",
    suffix=".yaml",
    write=write,
)
