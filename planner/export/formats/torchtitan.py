"""torchtitan's command-line overrides, one a line, over a configuration that the named release ships.

Every line is a word for the command line, and the whole file is TOML too, so that it can be read back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from accounting.vocabulary import Place
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
}
"""Preset → (training.dtype, training.mixed_precision_param)."""


def write(launch: Launch) -> str:
    """The overrides. Raises NotExportable where the release has no such model or does not do what was decided."""
    launch.noted_engine("fsdp2")
    module, flavor, config = _model(launch)
    arguments = overrides(launch, module, flavor)
    lines = [f"--{name}={json.dumps(value)}" for name, value in arguments.items()]
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
    if launch.model not in MODELS:
        raise NotExportable(
            f"torchtitan {RELEASE} registers no configuration of this model; it has {', '.join(MODELS)}"
        )
    return MODELS[launch.model]


def overrides(launch: Launch, module: str, flavor: str) -> dict[str, str | int]:
    """Override → value, in the words of the release's job configuration."""
    launch.without("pp")
    recipe = launch.recipe
    if recipe.optimizer.name not in OPTIMIZERS:
        raise NotExportable(f"torchtitan {RELEASE} has the optimizers {', '.join(OPTIMIZERS)} only")
    if recipe.precision.name not in PARAMETERS:
        raise NotExportable(f"torchtitan {RELEASE} has no setting for it; it has them for {', '.join(PARAMETERS)}")
    if (recipe.offload.parameters, recipe.offload.optimizer) != (Place.NONE, Place.NONE):
        raise NotExportable("this file sets no offload: choose an option without")
    stored, computed = PARAMETERS[recipe.precision.name]
    found: dict[str, str | int] = {
        "model.name": module,
        "model.flavor": flavor,
        "optimizer.name": OPTIMIZERS[recipe.optimizer.name],
        "training.local_batch_size": launch.degree("micro_batch_size"),
        "training.global_batch_size": launch.sequences,
        "training.seq_len": launch.degree("sequence_length"),
        "training.dtype": stored,
        "training.mixed_precision_param": computed,
        "parallelism.data_parallel_replicate_degree": launch.degree("dp_replicate"),
        "parallelism.data_parallel_shard_degree": launch.degree("dp_shard"),
        "parallelism.fsdp_reshard_after_forward": "always" if recipe.zero_stage == WHOLE_SHARDING else "never",
        "parallelism.tensor_parallel_degree": launch.degree("tp"),
        "parallelism.context_parallel_degree": launch.degree("cp"),
        "parallelism.expert_parallel_degree": launch.degree("ep"),
        "activation_checkpoint.mode": "full" if launch.recomputes_all else "none",
    }
    if launch.steps is not None:
        found["training.steps"] = launch.steps
    return found


FORMAT = Format(
    key="torchtitan", title=f"torchtitan {RELEASE}", media_type="text/plain", suffix=".args.toml", write=write
)
