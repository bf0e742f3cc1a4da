"""torchtitan's command-line overrides, one a line, over a configuration that the named release ships.

Every line is a word for the command line. Values are written as TOML writes them, so that a file without a switch
(offload is one) can be read back as TOML; a switch is a bare flag, as the release's parser takes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from accounting.naming import nearest_names
from accounting.partition import partition_of
from accounting.vocabulary import Place, Schedule
from planner.export.base import WHOLE_SHARDING, Format, Launch, NotExportable, commented

RELEASE = "v0.2.2"
MODELS: Mapping[str, tuple[str, str, str]] = {
    "llama-3-8b": ("llama3", "8B", "llama3_8b"),
    "llama-3.1-8b": ("llama3", "8B", "llama3_8b"),
    "llama-3-70b": ("llama3", "70B", "llama3_70b"),
    "llama-3.1-70b": ("llama3", "70B", "llama3_70b"),
    "llama-3.1-405b": ("llama3", "405B", "llama3_405b"),
    "qwen3-0.6b": ("qwen3", "0.6B", "qwen3_0.6b"),
    "qwen3-1.7b": ("qwen3", "1.7B", "qwen3_1.7b"),
    "qwen3-4b": ("qwen3", "4B", "qwen3_32b"),
    "qwen3-8b": ("qwen3", "8B", "qwen3_32b"),
    "qwen3-14b": ("qwen3", "14B", "qwen3_32b"),
    "qwen3-32b": ("qwen3", "32B", "qwen3_32b"),
    "deepseek-v3": ("deepseek_v3", "671B", "deepseek_v3_671b"),
    "llama-4-scout-17b-16e": ("llama4", "17bx16e", "llama4_17bx16e"),
    "llama-4-maverick-17b-128e": ("llama4", "17bx128e", "llama4_17bx128e"),
}
"""Model slug → (name, flavor, configuration file) in the release."""
OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam"}
PARAMETERS = {
    "fp32": ("float32", "float32"),
    "bf16-mixed": ("float32", "bfloat16"),
    "bf16-pure": ("bfloat16", "bfloat16"),
    "bf16-master-fp32grad": ("float32", "bfloat16"),
    "bf16-master": ("float32", "bfloat16"),
}
"""Preset → (training.dtype, training.mixed_precision_param)."""
KEEPS_MASTER = ("bf16-master", "bf16-master-fp32grad")
SCHEDULES = {Schedule.ONE_F_ONE_B: "1F1B", Schedule.INTERLEAVED: "Interleaved1F1B", Schedule.GPIPE: "GPipe"}
NO_PIPELINE = ("qwen3",)
"""Models that the release has no pipeline for."""


def write(launch: Launch) -> str:
    """The overrides. Raises NotExportable where the release has no such model or does not do what was decided."""
    module, flavor, config = _model(launch)
    launch.noted_engine("fsdp2")
    arguments = overrides(launch, module, flavor)
    lines = [f"--{name}" if value is True else f"--{name}={json.dumps(value)}" for name, value in arguments.items()]
    path = f"torchtitan/models/{module}/train_configs/{config}.toml"
    usage = [
        f"torchtitan {RELEASE}. In its folder, with this file's lines as arguments:",
        f"  grep -v '^#' FILE | NGPU={launch.devices_per_node} CONFIG_FILE={path} xargs ./run_train.sh",
    ]
    if launch.nodes > 1:
        usage.append(
            f"On {launch.nodes} nodes start torchrun on each, with --nnodes={launch.nodes} and one --rdzv-endpoint."
        )
    return commented([*launch.comment(), *usage]) + "\n".join(lines) + "\n"


def _model(launch: Launch) -> tuple[str, str, str]:
    if launch.recipe.adapter is not None:
        raise NotExportable(f"torchtitan {RELEASE} trains all weights, and this option trains an adapter")
    if launch.model not in MODELS:
        near = nearest_names(launch.model, MODELS, limit=1)
        raise NotExportable(
            f"torchtitan {RELEASE} registers no configuration of {launch.model}; the nearest name is "
            f"{near[0] if near else 'llama-3-8b'}, of {', '.join(MODELS)}"
        )
    return MODELS[launch.model]


def overrides(launch: Launch, module: str, flavor: str) -> dict[str, str | int | bool]:
    """Override → value, in the words of the release's job configuration."""
    recipe = launch.recipe
    if recipe.optimizer.name not in OPTIMIZERS:
        raise NotExportable(
            f"torchtitan {RELEASE} has no optimizer {recipe.optimizer.name}; it has {', '.join(OPTIMIZERS)}, the "
            "nearest is adamw"
        )
    found: dict[str, str | int | bool] = {
        "model.name": module,
        "model.flavor": flavor,
        "optimizer.name": OPTIMIZERS[recipe.optimizer.name],
        "training.local_batch_size": launch.degree("micro_batch_size"),
        "training.global_batch_size": launch.sequences,
        "training.seq_len": launch.degree("sequence_length"),
        "parallelism.data_parallel_replicate_degree": launch.degree("dp_replicate"),
        "parallelism.data_parallel_shard_degree": launch.degree("dp_shard"),
        "parallelism.fsdp_reshard_after_forward": "always" if recipe.zero_stage == WHOLE_SHARDING else "never",
        "parallelism.tensor_parallel_degree": launch.degree("tp"),
        "parallelism.context_parallel_degree": launch.degree("cp"),
        "parallelism.expert_parallel_degree": launch.degree("ep"),
        "activation_checkpoint.mode": "full" if launch.recomputes_all else "none",
    }
    if recipe.zero_stage == 1:
        launch.note("FSDP2 has no ZeRO 1: without resharding it is ZeRO 2, which holds less.")
    found |= _precision(launch) | _offload(launch) | _experts(launch) | _pipeline(launch, module)
    if launch.steps is not None:
        found["training.steps"] = launch.steps
    return found


def _precision(launch: Launch) -> dict[str, str | int | bool]:
    name = launch.recipe.precision.name
    if name not in PARAMETERS:
        raise NotExportable(
            f"torchtitan {RELEASE} has no setting for precision {name or 'of your own'}; it has "
            f"{', '.join(PARAMETERS)}, the nearest is bf16-mixed"
        )
    if name in KEEPS_MASTER:
        launch.note(f"torchtitan keeps fp32 weights and computes in bf16: {name} here is bf16-mixed, 16 bytes each.")
    stored, computed = PARAMETERS[name]
    return {"training.dtype": stored, "training.mixed_precision_param": computed}


def _offload(launch: Launch) -> dict[str, str | int | bool]:
    """The release moves parameters, gradients and states to the host together, or nothing."""
    places = launch.recipe.offload.parameters, launch.recipe.offload.optimizer
    if Place.NVME in places or launch.recipe.offload.activations is not Place.NONE:
        raise NotExportable(f"torchtitan {RELEASE} offloads to the host's memory only: choose an option with cpu")
    if places == (Place.NONE, Place.NONE):
        return {}
    if Place.NONE in places:
        launch.note("torchtitan moves parameters, gradients and optimizer states off the device together, or neither.")
    return {"training.enable_cpu_offload": True}


def _experts(launch: Launch) -> dict[str, str | int | bool]:
    wide, tensor = launch.degree("etp"), launch.degree("tp")
    if launch.degree("ep") == 1:
        return {}
    if wide not in (1, tensor):
        raise NotExportable(f"torchtitan {RELEASE} takes etp 1 or tp, and the option has etp={wide} beside tp={tensor}")
    return {"parallelism.expert_tensor_parallel_degree": wide}


def _pipeline(launch: Launch, module: str) -> dict[str, str | int | bool]:
    """Stages of layers alone, embedding and head as light as the plan takes them, one pass over the batch.

    The release runs the micro-batches of a pipeline as one local batch and spreads uneven layers over the first stages.
    """
    depth, chunks = launch.degree("pp"), launch.degree("vpp")
    if depth == 1:
        return {}
    schedule = SCHEDULES.get(launch.recipe.schedule)
    if module in NO_PIPELINE or schedule is None:
        said = f"schedule {launch.recipe.schedule.value}" if schedule is None else f"pipeline for {launch.model}"
        raise NotExportable(f"torchtitan {RELEASE} has no {said}, and the option has pp={depth}: choose one with pp=1")
    launch.note(
        f"Planned with {'an even' if _even(launch) else 'an uneven'} pipeline of Megatron's; torchtitan's spreads the "
        "layers from the first stage on."
    )
    layers = launch.architecture.layers if launch.architecture is not None else 0
    found: dict[str, str | int | bool] = {
        "training.local_batch_size": launch.degree("micro_batch_size") * launch.degree("micro_batches"),
        "parallelism.pipeline_parallel_degree": depth,
        "parallelism.pipeline_parallel_schedule": schedule,
        "parallelism.pipeline_parallel_microbatch_size": launch.degree("micro_batch_size"),
        "parallelism.pipeline_parallel_first_stage_less_layers": 0,
        "parallelism.pipeline_parallel_last_stage_less_layers": 0,
    }
    if chunks > 1:
        found["parallelism.pipeline_parallel_layers_per_stage"] = layers // (depth * chunks)
    return found


def _even(launch: Launch) -> bool:
    return len(set(partition_of(launch.scenario).layers[0].tolist())) == 1


FORMAT = Format(
    key="torchtitan", title=f"torchtitan {RELEASE}", media_type="text/plain", suffix=".args.toml", write=write
)
