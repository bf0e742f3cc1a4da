"""Which number formats a step really computes in, and whose code runs it: the two things saved tensors depend on."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.facts.dtypes import itemsize
from accounting.facts.precisions import Precision
from accounting.implementation import (
    HALF_WIDTH,
    adds_separate_gradients,
    runs_liger,
    runs_litgpt,
    runs_megatron_deepspeed,
    runs_modules,
    runs_torchtune,
)
from accounting.options import Options
from accounting.scenario import Recipe
from accounting.vocabulary import Engine

AUTOCAST_ENGINES = (Engine.DDP, Engine.DEEPSPEED, Engine.IDEAL)
"""Over fp32 parameters these run torch.autocast; FSDP casts its gathered units, Megatron its own copies."""


@dataclass(frozen=True, slots=True)
class Numerics:
    compute: int
    """Bytes of an activation that feeds a matrix product (e)."""
    residual: int
    """Bytes of the residual stream: fp32 under autocast."""
    autocast: bool
    fused: bool
    """Fused norms and activations (Megatron, Transformer Engine, torch.compile) against the Hugging Face modules."""
    fused_norm: bool
    fused_activation: bool
    """FSDP1's trainers (llm-foundry, fms-fsdp) run fused GELU; the Hugging Face gelu_new keeps three tensors more."""
    gathered_whole: bool
    """torch's tensor parallelism saves the gathered inputs whole; Megatron keeps the shard and gathers again."""
    upcasts: bool = False
    """Megatron's materialised softmax in fp32. Its measured runs without dropout hold 5 to 6 bytes a score (CI goldens,
    tr3m); the five bytes of Korthikanti 2022 are the fused 16-bit kernel's, dropout included."""
    liger: bool = False
    """Liger's norms and gated MLPs on Hugging Face modules: see `implementation.runs_liger`."""
    litgpt: bool = False
    """LitGPT's joint projections, adapters with dropout and 16-bit loss: see `implementation.runs_litgpt`."""
    torchtune: bool = False
    """Vocabulary matrices are units of their own, 4-bit weights are torchao's: see `implementation.runs_torchtune`."""
    megatron_deepspeed: bool = False
    """DeepSpeed's flat step under Megatron's kernels: see `implementation.runs_megatron_deepspeed`."""
    separate_gradients: bool = False
    """16-bit gradients beside an fp32 buffer: see `implementation.adds_separate_gradients`."""
    modules: bool = False
    """A Megatron-style engine made of plain torch modules (nanotron): see `implementation.runs_modules`."""


def numerics_of(recipe: Recipe) -> Numerics:
    """The formats and implementation of a recipe. Source: measured rules, activations §1, §2, §8."""
    precision, options, engine = recipe.precision, recipe.options, recipe.engine
    compute = itemsize(precision.activations)
    autocast = engine in AUTOCAST_ENGINES and runs_autocast(precision)
    megatron = engine is Engine.MEGATRON
    modules = runs_modules(recipe)
    liger = runs_liger(recipe)
    fused = (megatron and not modules) or options.compile or liger
    return Numerics(
        compute=compute,
        residual=4 if autocast else compute,
        autocast=autocast,
        fused=fused,
        fused_norm=_fused_norm(options, fused=fused or modules),
        fused_activation=fused or engine is Engine.FSDP1,
        gathered_whole=not megatron,
        upcasts=megatron and not _drops(recipe),
        liger=liger,
        litgpt=runs_litgpt(recipe),
        torchtune=runs_torchtune(recipe),
        megatron_deepspeed=runs_megatron_deepspeed(recipe),
        separate_gradients=adds_separate_gradients(recipe),
        modules=modules,
    )


def _drops(recipe: Recipe) -> bool:
    architecture, stated = recipe.model.architecture, recipe.options.dropout
    own = architecture.dropout if architecture is not None else 0.0
    return (own if stated is None else stated) > 0


def runs_autocast(precision: Precision) -> bool:
    """True where 16-bit compute meets fp32 parameters without a cast copy kept by the engine."""
    return itemsize(precision.activations) == HALF_WIDTH and precision.parameters == "fp32"


def _fused_norm(options: Options, *, fused: bool) -> bool:
    return fused if options.fused_norm is None else options.fused_norm
