"""Arguments of Megatron-LM's pretrain_gpt.py, one a line. Source: its arguments.py in Megatron-Core 0.14.0."""

from __future__ import annotations

from accounting.partition import partition_of
from accounting.vocabulary import Attention, Engine, Place, RecomputeMode
from planner.export.base import Format, Launch, NotExportable, commented
from planner.export.megatron_model import RELEASE, Arguments, model
from planner.export.texts import flags, shell_line

OPTIMIZERS = {"adamw": "adam", "adam": "adam", "sgd": "sgd"}
STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
MASTER = ("bf16-master", "bf16-master-fp32grad", "bf16-mixed", "fp16-master", "fp16-mixed", "fp8-master", "fp32")


def write(launch: Launch) -> str:
    """The arguments as lines, quoted as a shell and xargs read them."""
    words = arguments(launch)
    lines = [shell_line(line) for line in _lines(words)]
    usage = (
        f"Megatron-LM {RELEASE}: {environment(launch)}; grep -v '^#' FILE | xargs torchrun … pretrain_gpt.py, with "
        "your data, tokenizer and rates."
    )
    return commented([*launch.comment(), usage]) + "\n".join(lines) + "\n"


def _lines(words: list[str]) -> list[list[str]]:
    """Each flag with its value."""
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            lines.append([word])
        else:
            lines[-1].append(word)
    return lines


def arguments(launch: Launch) -> list[str]:
    """Words for the command line. Raises NotExportable where Megatron does not do what was decided."""
    architecture = launch.architecture
    if architecture is None:
        raise NotExportable("Megatron is given the model's shape, and this one was given without: use a config.json")
    if launch.recipe.adapter is not None:
        raise NotExportable("pretrain_gpt.py trains all weights, and this option trains an adapter")
    launch.noted_engine("megatron")
    return flags(
        model(architecture, launch.degree("sequence_length"))
        | layout(launch)
        | precision(launch)
        | recompute(launch)
        | optimizer(launch)
        | length(launch)
    )


def layout(launch: Launch) -> Arguments:
    """Degrees and batch."""
    found: Arguments = {
        "tensor-model-parallel-size": launch.degree("tp"),
        "sequence-parallel": bool(launch.scenario.layout.sequence_parallel[0, 0]) and launch.degree("tp") > 1,
        "pipeline-model-parallel-size": launch.degree("pp"),
        "context-parallel-size": launch.degree("cp"),
        "expert-model-parallel-size": launch.degree("ep"),
        "micro-batch-size": launch.degree("micro_batch_size"),
        "global-batch-size": launch.sequences,
        "seq-length": launch.degree("sequence_length"),
        "max-position-embeddings": launch.degree("sequence_length"),
    }
    if launch.degree("ep") > 1:
        found["expert-tensor-parallel-size"] = launch.degree("etp")
    if launch.degree("vpp") > 1:
        found["num-virtual-stages-per-pipeline-rank"] = launch.degree("vpp")
    found |= _uneven(launch)
    stage = launch.recipe.zero_stage
    if launch.recipe.engine is not Engine.MEGATRON and launch.degree("dp_replicate") > 1 and stage > 0:
        raise NotExportable("this file shards over all data-parallel ranks, and the option keeps one copy a node")
    found["use-distributed-optimizer"] = stage >= 1
    # What the plan's seconds count on: reductions and gathers go beside the arithmetic.
    shared = launch.degree("dp_replicate") * launch.degree("dp_shard") * launch.degree("cp") > 1
    found |= {"overlap-grad-reduce": shared, "overlap-param-gather": shared and stage >= 1}
    if sharded(launch):
        strategy = STRATEGIES[stage]
        found |= {"use-megatron-fsdp": True, "data-parallel-sharding-strategy": strategy, "ckpt-format": "fsdp_dtensor"}
    return found


def sharded(launch: Launch) -> bool:
    """Whether Megatron's own FSDP runs."""
    return launch.recipe.zero_stage in STRATEGIES


def environment(launch: Launch) -> str:
    """Shell that gives CUDA's launch queues the number that the release insists on, before it parses anything.

    One for tensor and context parallel groups (before Blackwell), more than one for its FSDP. Source: validate_args.
    """
    if sharded(launch):
        return "unset CUDA_DEVICE_MAX_CONNECTIONS"
    return f"export CUDA_DEVICE_MAX_CONNECTIONS={1 if launch.degree('tp') * launch.degree('cp') > 1 else 8}"


def _uneven(launch: Launch) -> Arguments:
    """Where layers do not share evenly into stages: the stages one by one, with the embedding and the loss at the ends.

    Source: Megatron-Core's pipeline layout (E embedding, t decoder layer, L loss, | between stages).
    """
    stages = partition_of(launch.scenario).layers[0]
    if len(set(stages.tolist())) == 1:
        return {}
    layout = "|".join(f"t*{layers}" for layers in stages.tolist())
    return {"pipeline-model-parallel-layout": f"E{layout}L"}


def precision(launch: Launch) -> Arguments:
    """16-bit weights beside an fp32 master copy; gradients in fp32 unless the preset keeps them in 16 bits."""
    name = launch.recipe.precision.name
    if name not in MASTER:
        raise NotExportable(
            f"Megatron-LM {RELEASE} has no setting for precision {name or 'of your own'}; it has {', '.join(MASTER)}, "
            "the nearest is bf16-master-fp32grad"
        )
    if name.endswith("-mixed"):
        launch.note(f"Megatron keeps 16-bit weights beside an fp32 master copy: {name} here is bf16-master-fp32grad.")
    found: Arguments = {
        "bf16": name.startswith(("bf16", "fp8")),
        "fp16": name.startswith("fp16"),
        "accumulate-allreduce-grads-in-fp32": name not in ("bf16-master", "fp16-master", "fp32"),
        "grad-reduce-in-bf16": name == "bf16-master",
    }
    if name == "fp8-master":
        found["fp8-format"] = "hybrid"
    return found


def recompute(launch: Launch) -> Arguments:
    """Which activations are computed again."""
    asked = launch.recipe.recompute
    backend: Arguments = {"attention-backend": "flash" if launch.recipe.attention is Attention.FLASH else "auto"}
    if asked.mode is RecomputeMode.NONE:
        return backend
    if asked.mode is RecomputeMode.SELECTIVE:
        if asked.modules:
            raise NotExportable(
                "this file recomputes the attention core only: choose an option with selective, full or none"
            )
        return backend | {"recompute-granularity": "selective"}
    layers: Arguments = {"recompute-granularity": "full"}
    if asked.layers is not None:
        return backend | layers | {"recompute-method": "block", "recompute-num-layers": asked.layers}
    return backend | layers | {"recompute-method": "uniform", "recompute-num-layers": 1}


def optimizer(launch: Launch) -> Arguments:
    """The optimizer and where its states live."""
    recipe = launch.recipe
    if recipe.optimizer.name not in OPTIMIZERS:
        raise NotExportable(
            f"Megatron-LM {RELEASE} has no optimizer {recipe.optimizer.name}; it has {', '.join(OPTIMIZERS)}, the "
            "nearest is adamw"
        )
    if recipe.offload.parameters is not Place.NONE or recipe.offload.optimizer is Place.NVME:
        asked = f"parameters on {recipe.offload.parameters.value}, states on {recipe.offload.optimizer.value}"
        raise NotExportable(f"Megatron moves optimizer states to the host and nothing else; this option has {asked}")
    hosted = recipe.offload.optimizer is Place.CPU
    if hosted and recipe.zero_stage == 0:
        raise NotExportable("Megatron moves the states of its distributed optimizer only: choose ZeRO 1 or more")
    return {
        "optimizer": OPTIMIZERS[recipe.optimizer.name],
        "optimizer-cpu-offload": hosted,
        "use-precision-aware-optimizer": hosted,
    }


def length(launch: Launch) -> Arguments:
    """How long the run is, in sequences."""
    if launch.steps is None:
        launch.note("The plan has no number of tokens: add --train-samples or --train-iters.")
        return {}
    return {"train-samples": launch.steps * launch.sequences}


FORMAT = Format(key="megatron", title="Megatron-LM arguments", media_type="text/plain", suffix=".args", write=write)
