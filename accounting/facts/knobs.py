"""Every entry of a request's `options`: what it takes, which engines read it, where it matters, its default in words.

The names are the engines' own. A knob that the engine asked for does not read, or that has nothing to act on in this
run, changes nothing in the estimate: the answer says so (`ignored_because`).
Sources: DeepSpeed config-json page (zero_optimization), torch 2.13 DistributedDataParallel and fully_shard docstrings,
Megatron-LM arguments.py, torchtitan config, bitsandbytes and PEFT argument names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from accounting.vocabulary import Attention, Engine, RecomputeMode

if TYPE_CHECKING:
    from accounting.scenario import Layout, Recipe

ALL = tuple(Engine)
FSDP = (Engine.FSDP1, Engine.FSDP2)
REAL = tuple(engine for engine in Engine if engine is not Engine.IDEAL)
MAX_ELEMENTS = 10**12
"""Largest bucket or threshold, in elements."""


class KnobKind(StrEnum):
    FLAG = "flag"
    WHOLE = "whole"
    NUMBER = "number"
    WORD = "word"
    TEXT = "text"
    NAMES = "names"


@dataclass(frozen=True, slots=True)
class Condition:
    """Where a knob has something to act on."""

    words: str
    holds: Callable[[Recipe, Layout], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    name: str
    kind: KnobKind
    default: str
    """In words: what stands where the knob is not given."""
    help: str
    engines: tuple[Engine, ...] = ALL
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    needs: Condition | None = None

    def ignored_because(self, recipe: Recipe, layout: Layout) -> str | None:
        """Why this knob changes nothing in this run, or None where it may."""
        if recipe.engine not in self.engines:
            return f"{recipe.engine} does not read it"
        if self.needs is not None and not self.needs.holds(recipe, layout):
            return f"it needs {self.needs.words}"
        return None


_ADAPTER = Condition("an adapter", lambda recipe, layout: recipe.adapter is not None)
_QUANTISED = Condition(
    "an adapter over an nf4 base",
    lambda recipe, layout: recipe.adapter is not None and recipe.adapter.base_dtype == "nf4",
)
_ACCUMULATION = Condition(
    "gradient accumulation (more than one micro-batch a step)",
    lambda recipe, layout: bool((layout.micro_batches > 1).any()),
)
_CONTEXT_PARALLEL = Condition("cp > 1", lambda recipe, layout: bool((layout.cp > 1).any()))
_TENSOR_PARALLEL = Condition("tp > 1", lambda recipe, layout: bool((layout.tp > 1).any()))
_SEVERAL = Condition("more than one device", lambda recipe, layout: bool((layout.count > 1).any()))
_FLASH = Condition("attention: flash", lambda recipe, layout: recipe.attention is Attention.FLASH)
_EAGER = Condition("attention: eager", lambda recipe, layout: recipe.attention is Attention.EAGER)
_SELECTIVE = Condition("recompute: selective", lambda recipe, layout: recipe.recompute.mode is RecomputeMode.SELECTIVE)
_EXPERTS = Condition(
    "a mixture-of-experts model",
    lambda recipe, layout: recipe.model.architecture is not None and recipe.model.architecture.moe is not None,
)
_FLOAT8 = Condition("an fp8 or mxfp8 precision", lambda recipe, layout: recipe.precision.compute in {"fp8", "mxfp8"})
_STAGE_3 = Condition("zero_stage 3", lambda recipe, layout: recipe.zero_stage == 3)  # noqa: PLR2004
_SHARDED = Condition("zero_stage 1 or more", lambda recipe, layout: recipe.zero_stage >= 1)


def _flag(
    name: str, default: str, help: str, engines: tuple[Engine, ...] = ALL, needs: Condition | None = None
) -> Knob:
    return Knob(name=name, kind=KnobKind.FLAG, default=default, help=help, engines=engines, needs=needs)


def _elements(name: str, default: str, help: str, needs: Condition, low: int = 1) -> Knob:
    return Knob(
        name=name,
        kind=KnobKind.WHOLE,
        default=default,
        help=help,
        engines=(Engine.DEEPSPEED,),
        low=low,
        high=MAX_ELEMENTS,
        needs=needs,
    )


_ROWS = (
    # what is run
    Knob(
        name="loss",
        kind=KnobKind.WORD,
        default="standard",
        help="how logits and cross-entropy are held: whole, in chunks of tokens, or fused into one kernel",
        choices=("standard", "chunked", "fused"),
    ),
    Knob(
        name="dropout",
        kind=KnobKind.NUMBER,
        default="the model's own",
        help="probability; above 0 every dropout keeps a mask of one byte per element",
        high=0.999,
    ),
    _flag("compile", "false", "torch.compile: fused element-wise kernels keep fewer tensors for backward"),
    _flag("fused_norm", "the engine's own", "one-kernel LayerNorm or RMSNorm, which keeps no fp32 copy"),
    Knob(
        name="flash_attention_version",
        kind=KnobKind.WHOLE,
        default="the newest the device runs",
        help="generation of the flash-attention kernel (speed only)",
        low=1,
        high=4,
        needs=_FLASH,
    ),
    _flag(
        "masked_softmax_fusion",
        "true",
        "Megatron's fused scale-mask-softmax, which keeps no unscaled copy of the scores",
        (Engine.MEGATRON,),
        _EAGER,
    ),
    _flag("tiled_mlp_compute", "false", "the MLP runs in slices of the sequence: its inner tensors are one slice long"),
    Knob(
        name="expert_imbalance",
        kind=KnobKind.NUMBER,
        default="1.0 (even)",
        help="load of the busiest expert-parallel rank over the mean",
        low=1,
        high=1024,
        needs=_EXPERTS,
    ),
    Knob(
        name="moe_token_dispatcher_type",
        kind=KnobKind.WORD,
        default="alltoall",
        help="how tokens travel to their experts",
        choices=("allgather", "alltoall", "flex", "alltoall_seq"),
        engines=(Engine.MEGATRON,),
        needs=_EXPERTS,
    ),
    # optimizer
    _flag(
        "optimizer_in_backward",
        "false",
        "each parameter is stepped, and its gradient freed, as soon as backward has made it; excludes accumulation",
        REAL,
    ),
    _flag("foreach", "true on GPUs", "multi-tensor optimizer step: a temporary of about one parameter copy", REAL),
    _flag("fused", "false", "single-kernel optimizer step: no temporary", REAL),
    Knob(
        name="grad_accum_dtype",
        kind=KnobKind.WORD,
        default="the gradients' dtype",
        help="DeepSpeed's data_types.grad_accum_dtype: what gradients are accumulated in",
        choices=("fp32", "bf16", "fp16"),
        engines=(Engine.DEEPSPEED,),
    ),
    # allocator
    _flag("expandable_segments", "false", "PYTORCH_CUDA_ALLOC_CONF: segments that grow, less fragmentation", REAL),
    # cluster
    Knob(
        name="devices_per_node",
        kind=KnobKind.WHOLE,
        default="the node type's",
        help="devices of one node that this run uses; overrides the node type",
        low=1,
        high=4096,
    ),
    Knob(
        name="inter_node_gbps",
        kind=KnobKind.NUMBER,
        default="the node type's",
        help="gigabit per second and direction of one whole node; overrides the node type",
        low=0.001,
        high=1_000_000,
    ),
    # DDP
    _flag(
        "gradient_as_bucket_view",
        "false",
        "gradients live in DDP's buckets instead of beside them",
        (Engine.DDP,),
    ),
    Knob(
        name="bucket_cap_mb",
        kind=KnobKind.WHOLE,
        default="25",
        help="size of a DDP bucket in MiB",
        low=1,
        high=1_000_000,
        engines=(Engine.DDP,),
        needs=_SEVERAL,
    ),
    _flag(
        "no_sync",
        "false",
        "gradients are reduced only at the last micro-batch: whole, unsharded gradients until then",
        (Engine.DDP, *FSDP),
        _ACCUMULATION,
    ),
    # FSDP
    _flag(
        "reshard_after_forward",
        "true at stage 3, false at stage 2",
        "whether gathered parameters are freed between forward and backward",
        FSDP,
    ),
    Knob(
        name="fsdp_auto_wrap_policy",
        kind=KnobKind.WORD,
        default="TRANSFORMER_BASED_WRAP",
        help="what is gathered as one unit: a block, or without a policy the whole model",
        choices=("TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"),
        engines=FSDP,
    ),
    _flag("use_orig_params", "true", "FSDP1 keeps original parameters as views", (Engine.FSDP1,)),
    _flag(
        "enable_fsdp_float8_all_gather",
        "false",
        "fp8 weights on the wire: half the all-gather bytes",
        (Engine.FSDP2,),
        _FLOAT8,
    ),
    Knob(
        name="float8_recipe_name",
        kind=KnobKind.WORD,
        default="tensorwise",
        help="granularity of the fp8 scales",
        choices=("tensorwise", "rowwise", "rowwise_with_gw_hp"),
        engines=FSDP,
        needs=_FLOAT8,
    ),
    # DeepSpeed
    _elements("reduce_bucket_size", "500,000,000 elements", "gradient bucket, in elements", _SHARDED),
    _elements("allgather_bucket_size", "500,000,000 elements", "parameter gather bucket, in elements", _SHARDED),
    _flag(
        "overlap_comm",
        "true at stage 3, false below",
        "gradient reduction beside backward, with a second bucket",
        (Engine.DEEPSPEED,),
        _SHARDED,
    ),
    _flag(
        "contiguous_gradients",
        "true",
        "gradients are copied to one contiguous buffer as they come",
        (Engine.DEEPSPEED,),
        _SHARDED,
    ),
    _elements("sub_group_size", "1,000,000,000 elements", "slice of the optimizer step at stage 3", _STAGE_3),
    _elements("stage3_max_live_parameters", "1,000,000,000", "gathered parameters kept resident", _STAGE_3),
    _elements("stage3_max_reuse_distance", "1,000,000,000", "keep a parameter that is used again sooner", _STAGE_3),
    _elements("stage3_prefetch_bucket_size", "50,000,000", "parameters gathered ahead", _STAGE_3),
    _elements("stage3_param_persistence_threshold", "100,000", "smaller parameters are never sharded", _STAGE_3, 0),
    # recompute and parallelism
    Knob(
        name="recompute_modules",
        kind=KnobKind.NAMES,
        default="core_attn",
        help="what Megatron's selective recompute drops",
        choices=("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"),
        engines=(Engine.MEGATRON,),
    ),
    Knob(
        name="selective_ac_option",
        kind=KnobKind.TEXT,
        default="the attention core",
        help="torchtitan: `op` keeps every second matmul and attention, a number recomputes every n-th block",
        engines=FSDP,
        needs=_SELECTIVE,
    ),
    Knob(
        name="cp_comm_type",
        kind=KnobKind.WORD,
        default="p2p (ring)",
        help="how context parallelism exchanges keys and values; a2a is Ulysses",
        choices=("p2p", "a2a", "allgather", "a2a+p2p"),
        needs=_CONTEXT_PARALLEL,
    ),
    _flag(
        "enable_async_tensor_parallel",
        "false",
        "tensor-parallel collectives in slices under the matmuls",
        (Engine.FSDP2,),
        _TENSOR_PARALLEL,
    ),
    # adapters
    Knob(
        name="target_modules",
        kind=KnobKind.NAMES,
        default="all that `targets` names",
        help="logical matrices in Llama's words that get an adapter; narrows `targets`",
        needs=_ADAPTER,
    ),
    Knob(
        name="modules_to_save",
        kind=KnobKind.NAMES,
        default="none",
        help="matrices that are trained whole beside the adapter",
        needs=_ADAPTER,
    ),
    _flag("bnb_4bit_use_double_quant", "false", "block scales of nf4 are quantised once more", needs=_QUANTISED),
    _flag(
        "prepare_model_for_kbit_training",
        "false",
        "PEFT casts embeddings, head and norms of the frozen base to fp32",
        needs=_ADAPTER,
    ),
)
KNOBS: Mapping[str, Knob] = MappingProxyType({row.name: row for row in _ROWS})
