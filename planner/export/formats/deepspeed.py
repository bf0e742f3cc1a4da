"""DeepSpeed's JSON configuration. Source: its configuration page, release 0.19 (torch_autocast, states in bf16)."""

from __future__ import annotations

from typing import Any

from accounting.vocabulary import Engine, Place
from planner.export.base import Format, Launch, NotExportable
from planner.export.texts import json_text

PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "bf16-mixed": {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}},
    "fp16-mixed": {"torch_autocast": {"enabled": True, "dtype": "float16"}},
    "bf16-master": {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "bf16"}},
    "bf16-master-fp32grad": {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    "fp16-master": {"fp16": {"enabled": True}},
    "bf16-pure": {
        "bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True},
        "data_types": {"grad_accum_dtype": "bf16"},
    },
}
SHARDED_ONLY = ("bf16-pure",)
"""Precisions that DeepSpeed knows from ZeRO 1 on."""


def write(launch: Launch) -> str:
    """A whole configuration; the optimizer is the training script's, as it is with most trainers."""
    launch.without("tp", "cp", "pp", "ep")
    recipe = launch.recipe
    precision = _precision(launch)
    launch.noted_engine("deepspeed")
    return json_text(
        {
            "_comment": " ".join([*launch.comment(), f"The optimizer, {recipe.optimizer.name}, is the script's own."]),
            "train_batch_size": launch.sequences,
            "train_micro_batch_size_per_gpu": launch.degree("micro_batch_size"),
            "gradient_accumulation_steps": launch.degree("micro_batches"),
            "zero_optimization": zero(launch),
            **precision,
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 1.0,
        }
    )


def _precision(launch: Launch) -> dict[str, Any]:
    name, stage = launch.recipe.precision.name, launch.recipe.zero_stage
    if name not in PRECISIONS:
        raise NotExportable(
            f"DeepSpeed has no setting for precision {name or 'of your own'}; it has {', '.join(PRECISIONS)}, the "
            "nearest is bf16-master"
        )
    if name in SHARDED_ONLY and stage == 0:
        raise NotExportable(f"DeepSpeed has {name} from ZeRO 1 on, and this option is of ZeRO 0: the nearest is 1")
    return PRECISIONS[name]


def zero(launch: Launch) -> dict[str, Any]:
    """The ZeRO block: stage, the knobs the request set, and where states go."""
    recipe = launch.recipe
    stage = 0 if recipe.engine is Engine.DDP else recipe.zero_stage
    block: dict[str, Any] = {"stage": stage}
    options = recipe.options
    known = ("overlap_comm", "reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_max_live_parameters")
    for name in known:
        value = getattr(options, name, None)
        if value is not None:
            block[name] = value
    for name, place in (("offload_optimizer", recipe.offload.optimizer), ("offload_param", recipe.offload.parameters)):
        if place is Place.NVME:
            raise NotExportable("NVMe offload needs a path on your nodes: write it into the file of an option with cpu")
        if place is not Place.NONE:
            block[name] = {"device": place.value, "pin_memory": True}
    if launch.degree("dp_replicate") > 1 and stage > 0:
        raise NotExportable("ZeRO here shards over all data-parallel ranks, and the option keeps one copy a node")
    return block


FORMAT = Format(key="deepspeed", title="DeepSpeed JSON", media_type="application/json", suffix=".json", write=write)
