"""The real optimizer of a registry row on real parameters, and the bytes it really holds."""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from accounting.facts.optimizers import OPTIMIZERS, Optimizer
from planner.validation.measure.models import Refused

MODULES = {
    "torch": "torch.optim",
    "transformers": "transformers.optimization",
    "bitsandbytes": "bitsandbytes.optim",
    "torchao": "torchao.optim.adam",
    "lion-pytorch": "lion_pytorch",
    "came-pytorch": "came_pytorch",
    "schedulefree": "schedulefree",
    "adan-pytorch": "adan_pytorch",
    "grams-pytorch": "grams",
    "torch-optimi": "optimi",
}
"""Import name of each library whose optimizers take a list of parameters and a rate."""
OWN_OPTIONS = frozenset({"embeddings_32bit", "tensor_lr"})
COUNTED_APART = frozenset({"state", "defaults", "param_groups"})
OUTSIDE = ("embed", "wte", "wpe", "lm_head", "head")
"""Words of names that Muon leaves to AdamW."""


def built_optimizers(job: dict[str, Any], model: Any, rate: float | None = None) -> list[Any]:
    """The optimizer objects of a job's row (two for a hybrid). Raises Refused where this cannot run here."""
    row, options = OPTIMIZERS[job["optimizer"]["name"]], dict(job["optimizer"]["options"])
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    rate = job.get("learning_rate", 1e-4) if rate is None else rate
    if row.library not in MODULES:
        raise Refused(f"{row.name} ({row.library}) has no real run here; those of {', '.join(MODULES)} have")
    torch.compile = _uncompiled  # some libraries compile their step: slow, and it changes no byte
    special = SPECIAL.get(row.name)
    if special is not None:
        return special(row, options, named, rate)
    keywords = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    if row.title.endswith("(optim_bits=32)"):
        keywords["optim_bits"] = 32
    if row.library == "bitsandbytes":
        _reset_overrides(model, embeddings_32bit=bool(options.get("embeddings_32bit")))
    made = _class_of(row)([parameter for _, parameter in named], lr=rate, **keywords)
    if hasattr(made, "train"):
        made.train()
    return [made]


def _class_of(row: Optimizer) -> Any:
    try:
        module = importlib.import_module(MODULES[row.library])
    except ImportError as fault:
        raise Refused(f"{row.name} needs {row.library}: {fault}") from fault
    return getattr(module, row.title.partition("(")[0].partition(" ")[0])


def _uncompiled(function: Any = None, **_: Any) -> Any:
    return function if function is not None else lambda one: one


def _reset_overrides(model: Any, *, embeddings_32bit: bool) -> None:
    manager = importlib.import_module("bitsandbytes").optim.GlobalOptimManager
    manager._instance = None
    if embeddings_32bit:
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                manager.get_instance().register_module_override(module, "weight", {"optim_bits": 32})


Named = list[tuple[str, Any]]


def _muon(row: Optimizer, options: dict[str, Any], named: Named, rate: float) -> list[Any]:
    hidden = [p for name, p in named if p.ndim == 2 and not any(word in name for word in OUTSIDE)]  # noqa: PLR2004
    if not hidden:
        raise Refused("muon steps matrices, and this engine hands the optimizer flat slices of them")
    rest = [p for _, p in named if not any(p is one for one in hidden)]
    return [torch.optim.Muon(hidden, lr=rate, **options), torch.optim.AdamW(rest, lr=rate)]


def _adafactor(row: Optimizer, options: dict[str, Any], named: Named, rate: float) -> list[Any]:
    fixed = {"scale_parameter": False, "relative_step": False}
    return [_class_of(row)([parameter for _, parameter in named], lr=rate, **fixed, **options)]


SPECIAL: dict[str, Callable[[Optimizer, dict[str, Any], Named, float], list[Any]]] = {
    "muon": _muon,
    "adafactor-hf": _adafactor,
}


def plain(tensor: Any) -> Iterator[Any]:
    """The ordinary tensors a wrapper (shard, quantised state) consists of."""
    if type(tensor) not in {torch.Tensor, torch.nn.Parameter} and hasattr(tensor, "__tensor_flatten__"):
        parts = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
        for part in parts:
            if isinstance(part, torch.Tensor):
                yield from plain(part)
    else:
        yield tensor


def storages(tensors: Iterable[Any]) -> dict[int, int]:
    """Bytes of every distinct storage, by its address."""
    found: dict[int, int] = {}
    for tensor in tensors:
        for one in plain(tensor):
            storage = one.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return found


def reachable(value: Any, seen: set[int], depth: int = 0) -> Iterator[Any]:
    """Tensors that a value leads to, through containers and the libraries' own objects."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    if depth > 7 or id(value) in seen or isinstance(value, str | bytes | type | torch.nn.Module) or callable(value):  # noqa: PLR2004
        return
    seen.add(id(value))
    if isinstance(value, dict):
        children: Any = value.values()
    elif isinstance(value, list | tuple | set | deque):
        children = value
    elif type(value).__module__.split(".")[0] in {"builtins", "collections", "weakref", "logging", "functools"}:
        return
    else:
        slots = [getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
        children = [*vars(value).values(), *slots] if hasattr(value, "__dict__") else slots
    for child in children:
        yield from reachable(child, seen, depth + 1)


def held_bytes(optimizers: list[Any], parameters: Iterable[Any]) -> int:
    """Bytes of all distinct storages reachable from the optimizers, parameters and gradients excepted."""
    kept = list(parameters)
    own = storages(kept) | storages(parameter.grad for parameter in kept if parameter.grad is not None)
    found: dict[int, int] = {}
    for one in optimizers:
        states = [one.state[key] for key in one.state] if hasattr(one, "state") else []
        attributes = {
            name: value for name, value in vars(one).items() if name not in {"state", "defaults", "param_groups"}
        }
        groups = [{name: value for name, value in group.items() if name != "params"} for group in one.param_groups]
        found |= storages(reachable([states, attributes, groups], set()))
    return sum(amount for address, amount in found.items() if address not in own)
