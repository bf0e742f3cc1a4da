"""Accelerate's YAML for FSDP. Source: Accelerate's configuration dataclasses, release 1.13."""

from __future__ import annotations

from typing import Any

from accounting.vocabulary import Engine, Place
from planner.export.base import WHOLE_SHARDING, Format, Launch, NotExportable, commented
from planner.export.texts import yaml_text

MIXED = {"fp32": "no", "bf16-mixed": "bf16", "fp16-mixed": "fp16", "bf16-pure": "no", "bf16-master-fp32grad": "bf16"}


def write(launch: Launch) -> str:
    """A whole configuration for `accelerate launch --config_file`."""
    launch.without("pp", "ep")
    recipe = launch.recipe
    launch.noted_engine("fsdp2", "fsdp1")
    config = cluster(launch) | {"distributed_type": "FSDP", "mixed_precision": mixed(launch)}
    old = recipe.engine is Engine.FSDP1
    if recipe.offload.optimizer is not Place.NONE and recipe.offload.parameters is Place.NONE:
        launch.note("FSDP moves parameters and optimizer states off the device together, or neither.")
    shared: dict[str, Any] = {
        "fsdp_version": 1 if old else 2,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_offload_params": recipe.offload.parameters is Place.CPU or recipe.offload.optimizer is Place.CPU,
        "fsdp_activation_checkpointing": launch.recomputes_all,
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
    config["fsdp_config"] = shared | (first_version(launch) if old else second_version(launch))
    if not old:
        config |= parallelism(launch)
    return commented(launch.comment()) + yaml_text(config)


def cluster(launch: Launch) -> dict[str, Any]:
    """Where it runs; the rank and address of a node are the launcher's to give."""
    return {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "num_machines": launch.nodes,
        "num_processes": launch.nodes * launch.devices_per_node,
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
    }


def mixed(launch: Launch) -> str:
    """Accelerate's word for the precision."""
    name = launch.recipe.precision.name
    if name not in MIXED:
        raise NotExportable(
            f"FSDP through Accelerate has no setting for precision {name or 'of your own'}; it has "
            f"{', '.join(MIXED)}, the nearest is bf16-mixed"
        )
    if name == "bf16-pure":
        launch.note("bf16-pure: the script loads the model with dtype=torch.bfloat16.")
    if name == "bf16-master-fp32grad":
        launch.note("FSDP keeps fp32 weights and computes in bf16: bf16-mixed, 16 bytes a parameter instead of 18.")
    return MIXED[name]


def first_version(launch: Launch) -> dict[str, Any]:
    """FSDP1's own words for the same sharding."""
    launch.without("tp", "cp")
    whole = launch.recipe.zero_stage == WHOLE_SHARDING
    hybrid = launch.degree("dp_replicate") > 1
    names = {(True, False): "FULL_SHARD", (False, False): "SHARD_GRAD_OP"}
    names |= {(True, True): "HYBRID_SHARD", (False, True): "HYBRID_SHARD_ZERO2"}
    return {
        "fsdp_sharding_strategy": names[(whole, hybrid)],
        "fsdp_backward_prefetch": "BACKWARD_PRE",
        "fsdp_use_orig_params": True,
        "fsdp_sync_module_states": True,
    }


def second_version(launch: Launch) -> dict[str, Any]:
    """FSDP2: resharding after forward is stage 3."""
    if launch.recipe.zero_stage < WHOLE_SHARDING - 1:
        raise NotExportable(f"FSDP has no ZeRO stage {launch.recipe.zero_stage}: choose an option with stage 2 or 3")
    return {"fsdp_reshard_after_forward": launch.recipe.zero_stage == WHOLE_SHARDING}


def parallelism(launch: Launch) -> dict[str, Any]:
    """The device mesh, where it is more than one flat group of shards."""
    degrees = {name: launch.degree(name) for name in ("dp_replicate", "dp_shard", "tp", "cp")}
    if degrees["dp_replicate"] == degrees["tp"] == degrees["cp"] == 1:
        return {}
    return {"parallelism_config": {f"parallelism_config_{name}_size": degree for name, degree in degrees.items()}}


FORMAT = Format(
    key="accelerate-fsdp", title="Accelerate, FSDP", media_type="application/yaml", suffix=".yaml", write=write
)
