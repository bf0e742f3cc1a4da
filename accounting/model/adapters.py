"""LoRA, QLoRA and DoRA: which tensors freeze and which small ones are added, as peft builds them.

LoRA on a matrix [out, in] adds A [r, in] and B [out, r] (Hu et al. 2021, section 4.1); DoRA a magnitude [out] more
(Liu et al. 2024, section 4). QLoRA is LoRA over a quantised base (Dettmers et al. 2023): the same tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from accounting.model.architecture import Architecture
from accounting.model.classes import class_names
from accounting.model.errors import ConfigError, Fault
from accounting.model.reader import nearest, shown
from accounting.model.tensors import Inventory, LayerKind, Tensor

ATTENTION_WORDS: Final = frozenset(
    ("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
)
METHODS: Final = ("lora", "qlora", "dora")
MAX_RANK: Final = 65_536
GROUPS: Final = ("attention", "all-linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """An adapter as the contract states it; `target_modules` and `modules_to_save` come from `options`."""

    method: str
    rank: int
    targets: str | tuple[str, ...] = "all-linear"
    """`attention` (q, k, v and o), `all-linear` (every linear layer but the head), or names."""
    base_dtype: str = "bf16"
    target_modules: tuple[str, ...] | None = None
    modules_to_save: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """A model under an adapter: the base frozen, adapter tensors (flag `adapter`) beside what they adapt."""

    inventory: Inventory
    warnings: tuple[str, ...] = ()

    @property
    def base_parameters(self) -> int:
        """Parameters of the frozen base."""
        return self.inventory.parameters - self.adapter_parameters

    @property
    def adapter_parameters(self) -> int:
        """Parameters the adapter adds, copies of `modules_to_save` included."""
        return sum(tensor.parameters * times for tensor, times in self.inventory.all_tensors() if tensor.adapter)

    @property
    def trainable_parameters(self) -> int:
        """Parameters that get a gradient and optimizer states."""
        return self.inventory.trainable_parameters


def adapted(inventory: Inventory, architecture: Architecture, adapter: Adapter) -> Adapted:
    """The inventory with its base frozen and the adapter's tensors added.

    Words are Llama's logical matrices or the class's own names. Where a class fuses matrices (GPT-2's c_attn) and all
    of them are targets, the fused one gets one adapter, as peft does; where only some are, each gets its own on its
    share of the outputs, as libraries that split fused weights do, with a warning.

    Raises ConfigError with pointers into the request (`/adapter/targets`, `/options/target_modules/0` …).
    """
    faults = _own_faults(adapter)
    tied = _tied_head(inventory, architecture)
    everything = [tensor for tensor, _ in inventory.all_tensors()] + ([tied] if tied is not None else [])
    blocks = [tensor for kind in inventory.kinds for tensor in kind.tensors]
    chosen = _chosen(everything, blocks, adapter, faults)
    saved = _named(everything, adapter.modules_to_save, "/options/modules_to_save", faults, weights_only=False)
    if faults:
        raise ConfigError(faults)
    warnings: list[str] = []
    if any(tensor.expert and _targets(tensor, chosen) for tensor in blocks):
        warnings.append(
            "the experts' own matrices get adapters, one per expert; a class that holds them stacked (transformers 5) "
            "shows peft no linear layer there: name other targets for it"
        )

    def extend(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        result: list[Tensor] = []
        for tensor in tensors:
            result.append(replace(tensor, trainable=False))
            if _saves(tensor, saved):
                result.append(_copy(tensor))
            elif _targets(tensor, chosen):
                result += _adapters_of(tensor, chosen, adapter, warnings)
        return tuple(result)

    kinds = tuple(_extended(kind, extend) for kind in inventory.kinds)
    # The tied head's own weight is the embedding, so only what is added to it stands in the inventory.
    last = extend(inventory.last) + (extend((tied,))[1:] if tied is not None else ())
    result = Inventory(first=extend(inventory.first), last=last, kinds=kinds, pattern=inventory.pattern)
    return Adapted(inventory=result, warnings=tuple(dict.fromkeys(warnings)))


def _own_faults(adapter: Adapter) -> list[Fault]:
    faults = []
    if adapter.method not in METHODS:
        detail = f"method={shown(adapter.method)} is unknown; known: {', '.join(METHODS)}"
        faults.append(Fault("/adapter/method", "unknown_value", detail))
    if not 1 <= adapter.rank <= MAX_RANK:
        faults.append(Fault("/adapter/rank", "out_of_range", f"rank={shown(adapter.rank)} is outside 1 to {MAX_RANK}"))
    return faults


def _extended(kind: LayerKind, extend: Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]) -> LayerKind:
    return replace(kind, tensors=extend(kind.tensors))


def _place(tensor: Tensor) -> str:
    """The class's own name of the module a tensor belongs to: `c_attn` of `attn.c_attn.weight`."""
    return tensor.name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1]


def _names(tensor: Tensor) -> set[str]:
    return {*tensor.words, _place(tensor)}


def _matrices(tensors: Iterable[Tensor]) -> list[Tensor]:
    """What can carry an adapter: linear weights and the word embedding."""
    return [tensor for tensor in tensors if tensor.linear or tensor.module == "embed_tokens"]


def _chosen(tensors: list[Tensor], blocks: list[Tensor], adapter: Adapter, faults: list[Fault]) -> frozenset[str]:
    """Words and class names that get an adapter."""
    if isinstance(adapter.targets, str):
        allowed = _group(blocks, adapter, faults)
    else:
        allowed = _named(tensors, adapter.targets, "/adapter/targets", faults)
    if adapter.target_modules is None:
        return allowed
    before = len(faults)
    narrowed = _named(tensors, adapter.target_modules, "/options/target_modules", faults)
    if len(faults) == before:
        reach = {name for tensor in _matrices(tensors) if _names(tensor) & allowed for name in _names(tensor)}
        for index, word in enumerate(adapter.target_modules):
            if word not in reach and reach:
                detail = f"{shown(word)} is outside the adapter's targets, which target_modules can only narrow"
                faults.append(Fault(f"/options/target_modules/{index}", "outside_targets", detail))
    return narrowed


def _group(blocks: list[Tensor], adapter: Adapter, faults: list[Fault]) -> frozenset[str]:
    if adapter.targets not in GROUPS:
        detail = f"targets={shown(adapter.targets)} is neither {' nor '.join(GROUPS)} nor a list of names"
        faults.append(Fault("/adapter/targets", "unknown_value", detail))
        return frozenset()
    words = {word for tensor in blocks if tensor.linear for word in tensor.words}
    return frozenset(words & ATTENTION_WORDS if adapter.targets == "attention" else words)


def _named(
    tensors: list[Tensor], names: Collection[str], pointer: str, faults: list[Fault], *, weights_only: bool = True
) -> frozenset[str]:
    """The names, each checked against what the model holds."""
    pool = _matrices(tensors) if weights_only else tensors
    known = {name for tensor in pool for name in _names(tensor)}
    for index, name in enumerate(names):
        if name not in known:
            detail = f"this model has no module {shown(name)}{nearest(name, known)}; known: {', '.join(sorted(known))}"
            faults.append(Fault(f"{pointer}/{index}", "unknown_module", detail))
    return frozenset(names)


def _targets(tensor: Tensor, chosen: frozenset[str]) -> bool:
    return bool(_matrices([tensor])) and bool(_names(tensor) & chosen)


def _saves(tensor: Tensor, saved: frozenset[str]) -> bool:
    return bool(_names(tensor) & saved)


def _copy(tensor: Tensor) -> Tensor:
    """peft keeps the original, frozen, beside the copy it trains."""
    return replace(tensor, name=f"{tensor.name} (modules_to_save)", trainable=True, adapter=True)


def _tied_head(inventory: Inventory, architecture: Architecture) -> Tensor | None:
    """The head a tied model has as a module though not as a tensor: peft can adapt it, or copy it and break the tie."""
    embedding = next((tensor for tensor in inventory.first if tensor.module == "embed_tokens"), None)
    held = any(tensor.module == "lm_head" and tensor.linear for tensor in inventory.last)
    if held or embedding is None or architecture.head != "lm":
        return None
    name = f"{class_names(architecture.family).name('lm_head')}.weight"
    return replace(embedding, name=name, role="head", module="lm_head", linear=True)


def _adapters_of(tensor: Tensor, chosen: frozenset[str], adapter: Adapter, warnings: list[str]) -> list[Tensor]:
    words = set(tensor.words) & chosen
    whole = not tensor.parts or len(words) == len(tensor.words) or _place(tensor) in chosen
    if whole:
        return _low_rank(tensor, tensor.module, None, adapter)
    warnings.append(
        f"{_place(tensor)} fuses {', '.join(tensor.words)}: adapters on {', '.join(sorted(words))} alone are counted "
        "on their own outputs, as libraries that split the matrix hold them; peft can only adapt all of it"
    )
    return [added for word, width in tensor.parts if word in words for added in _low_rank(tensor, word, width, adapter)]


def _low_rank(tensor: Tensor, word: str, width: int | None, adapter: Adapter) -> list[Tensor]:
    """A, B and DoRA's magnitude for one matrix, or for `width` of its outputs."""
    # An embedding [V, h] is looked up by its rows, so they are its inputs.
    input_dim = 0 if tensor.module == "embed_tokens" else tensor.input_dim
    inputs = tensor.shape[input_dim]
    outputs = tensor.shape[1 - input_dim] if width is None else width
    cut_inputs = tensor.tensor_parallel_dim == input_dim
    cut_outputs = tensor.tensor_parallel_dim == 1 - input_dim
    common = Tensor(
        name="",
        shape=(),
        count=tensor.count,
        role=tensor.role,
        module=word,
        adapter=True,
    )
    base = tensor.name.removesuffix(".weight") if width is None else f"{tensor.name.removesuffix('.weight')}.{word}"
    rank = adapter.rank
    added = [
        replace(common, name=f"{base}.lora_A", shape=(rank, inputs), tensor_parallel_dim=1 if cut_inputs else None),
        replace(common, name=f"{base}.lora_B", shape=(outputs, rank), tensor_parallel_dim=0 if cut_outputs else None),
    ]
    if adapter.method == "dora":
        magnitude = replace(
            common, name=f"{base}.lora_magnitude", shape=(outputs,), tensor_parallel_dim=0 if cut_outputs else None
        )
        added.append(magnitude)
    return added
