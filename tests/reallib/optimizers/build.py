"""Building the real optimizer of a registry row, and counting the bytes it really holds.

Nothing here is imported before the real libraries are known to be installed.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

from accounting.facts.optimizers import Optimizer
from accounting.optimizer_laws import ModelFacts
from tests.reallib.optimizers.modules import MODULES

Named = list[tuple[str, torch.nn.Parameter, str]]
"""(name, parameter, role)."""

HEAVYBALL_STORAGE = {"float32": {}, "bfloat16": {"storage_dtype": "bfloat16"}, "bf16+8": {"ecc": "bf16+8"}}
SMALL = ModelFacts(hidden_size=64, heads=4)
MUON_GROUPS = {"AdaMuon", "Muon", "MuonClip", "AdaGO", "NorMuon", "Magma", "Conda"}
PROJECTION = {"update_proj_gap": 200, "proj_type": "std"}


@cache
def _real_classes(library: str) -> dict[str, Any]:
    module = importlib.import_module(MODULES[library])
    return {(found := module.load_optimizer(name)).__name__: found for name in module.get_supported_optimizers()}


def real_class(optimizer: Optimizer) -> Any:
    """The library's class of a row."""
    if optimizer.library == "pytorch_optimizer":
        return _real_classes(optimizer.library)[optimizer.title]
    module = importlib.import_module(MODULES[optimizer.library])
    return getattr(module, optimizer.title.partition("(")[0].partition(" ")[0])


def _hidden(parameter: torch.nn.Parameter, role: str) -> bool:
    return parameter.ndim == 2 and role not in {"embedding", "position", "head"}


def _split(named: Named) -> tuple[list[Any], list[Any]]:
    hidden = [parameter for _, parameter, role in named if _hidden(parameter, role)]
    return hidden, [parameter for _, parameter, role in named if not _hidden(parameter, role)]


def build(optimizer: Optimizer, options: dict[str, Any], named: Named, facts: ModelFacts = SMALL) -> list[Any]:
    """The optimizer objects of a row on real parameters (two for a hybrid); `facts` of their model."""
    if optimizer.name == "adam-mini":
        return [_adam_mini(optimizer, named, facts)]
    special: Callable[..., list[Any]] | None = SPECIAL.get(optimizer.name) or BY_LIBRARY.get(optimizer.library)
    if special is not None:
        return special(optimizer, options, named)
    keywords = {name: value for name, value in options.items() if name != "tensor_lr"}
    if optimizer.title.endswith("(optim_bits=32)"):
        keywords["optim_bits"] = 32
    rate: Any = torch.tensor(1e-4) if options.get("tensor_lr") else 1e-4
    if optimizer.library == "bitsandbytes":
        importlib.import_module("bitsandbytes").optim.GlobalOptimManager._instance = None
    made = real_class(optimizer)([parameter for _, parameter, _ in named], lr=rate, **keywords)
    if hasattr(made, "train"):
        made.train()
    return [made]


def _muon(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    hidden, rest = _split(named)
    return [torch.optim.Muon(hidden, lr=1e-4, **options), torch.optim.AdamW(rest, lr=1e-4)]


def _adafactor(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    fixed = {"scale_parameter": False, "relative_step": False}
    return [real_class(optimizer)([parameter for _, parameter, _ in named], lr=1e-4, **fixed, **options)]


def _prodigy(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    keywords = {"slice_p": options.get("slice_p", 1), "betas": (options.get("beta1", 0.9), 0.999)}
    return [real_class(optimizer)([parameter for _, parameter, _ in named], lr=1.0, **keywords)]


def _adam_mini(optimizer: Optimizer, named: Named, facts: ModelFacts) -> Any:
    pairs = [(name, parameter) for name, parameter, _ in named]
    sizes = {"dim": facts.hidden_size, "n_heads": facts.heads}
    return real_class(optimizer)(named_parameters=pairs, lr=1e-4, verbose=False, **sizes)


def _lbfgs(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    # A larger rate: pairs of steps too small to tell apart are not kept.
    return [torch.optim.LBFGS([parameter for _, parameter, _ in named], lr=1e-3, **options)]


def _lomo(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    module = torch.nn.Module()
    for index, (_, parameter, _) in enumerate(named):
        module.register_parameter(f"p{index}", parameter)
    return [real_class(optimizer)(module, lr=1e-4)]


def _groups(named: Named, **settings: Any) -> list[dict[str, Any]]:
    hidden, rest = _split(named)
    return [{"params": hidden, **settings}, {"params": rest}]


def _low_rank(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    settings: dict[str, Any] = {"rank": options["rank"], "scale": 0.25, **PROJECTION}
    keywords: dict[str, Any] = {"lr": 1e-4}
    if optimizer.library == "apollo-torch":
        random = options.get("random_projection", True)
        settings |= {"proj": "random" if random else "svd", "scale_type": "channel", "scale": 1.0}
    if optimizer.name == "galore-adamw":
        keywords["no_deprecation_warning"] = True
    if optimizer.name == "galore-adafactor":
        keywords = {"scale_parameter": True}
    return [real_class(optimizer)(_groups(named, **settings), **keywords)]


def _pytorch_optimizer(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    kind = real_class(optimizer)
    if optimizer.title in MUON_GROUPS:
        hidden, rest = _split(named)
        try:
            return [kind([{"params": hidden, "use_muon": True}, {"params": rest, "use_muon": False}])]
        except (TypeError, ValueError):
            pass
    needed = {"Ranger21": {"num_iterations": 10}, "BSAM": {"num_data": 10}}.get(optimizer.title, {})
    return [kind([parameter for _, parameter, _ in named], **needed, **options)]


def _heavyball(optimizer: Optimizer, options: dict[str, Any], named: Named) -> list[Any]:
    importlib.import_module("heavyball.utils").compile_mode = None
    keywords = HEAVYBALL_STORAGE[options.get("storage", "float32")]
    return [real_class(optimizer)([parameter for _, parameter, _ in named], lr=1e-4, **keywords)]


SPECIAL: dict[str, Callable[..., list[Any]]] = {
    "muon": _muon,
    "adafactor-hf": _adafactor,
    "prodigy": _prodigy,
    "lbfgs": _lbfgs,
    "lomo": _lomo,
    "adalomo": _lomo,
}
BY_LIBRARY: dict[str, Callable[..., list[Any]]] = {
    "galore-torch": _low_rank,
    "apollo-torch": _low_rank,
    "pytorch_optimizer": _pytorch_optimizer,
    "heavyball": _heavyball,
}


def run_step(optimizer: Optimizer, made: list[Any], named: Named) -> None:
    """Two real steps with fresh gradients: some states appear in the second."""
    for step in range(2):
        generator = torch.Generator().manual_seed(step)
        if optimizer.frees_gradients:
            sum((parameter.float() ** 2).sum() for _, parameter, _ in named).backward()  # type: ignore[union-attr]
            continue
        for _, parameter, _ in named:
            parameter.grad = (torch.rand(parameter.shape, generator=generator) - 0.5).to(parameter.dtype)
        for one in made:
            _step(optimizer, one, named)


def _step(optimizer: Optimizer, one: Any, named: Named) -> None:
    if optimizer.name == "ademamix-32bit":
        for index, (_, parameter, _) in enumerate(named):
            one.init_state(one.param_groups[0], parameter, 0, index)
    elif optimizer.name == "sophia-g":
        one.step(bs=16)
        one.update_hessian()
    elif optimizer.name == "lbfgs":
        one.step(lambda: _quadratic(one, named))
    else:
        try:
            one.step()
        except Exception as error:
            if not isinstance(error, TypeError) and "losure" not in f"{type(error)}{error}":
                raise
            one.step(lambda: torch.tensor(1.0, requires_grad=True))


def _quadratic(one: Any, named: Named) -> torch.Tensor:
    one.zero_grad()
    weights = ((torch.arange(parameter.numel()) % 7 + 1).view(parameter.shape) for _, parameter, _ in named)
    loss = sum(((p.float() - 0.01) ** 2 * w).sum() for (_, p, _), w in zip(named, weights, strict=True))
    loss.backward()  # type: ignore[union-attr]
    return loss  # type: ignore[return-value]


def _plain(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    if hasattr(tensor, "_local_tensor"):
        yield from _plain(tensor._local_tensor)
    elif type(tensor) not in {torch.Tensor, torch.nn.Parameter} and hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _plain(getattr(tensor, name))
    else:
        yield tensor


def _reachable(value: Any, seen: set[int], depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield from _plain(value)
        return
    if depth > 7 or id(value) in seen or isinstance(value, str | bytes | type | torch.nn.Module) or callable(value):
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
        yield from _reachable(child, seen, depth + 1)


def held_bytes(made: list[Any], named: Named) -> int:
    """Bytes of all distinct storages reachable from the optimizers, parameters and gradients excepted."""
    own = {parameter.untyped_storage()._cdata for _, parameter, _ in named}
    own |= {parameter.grad.untyped_storage()._cdata for _, parameter, _ in named if parameter.grad is not None}
    found: dict[int, int] = {}
    for one in made:
        states = [one.state[key] for key in one.state] if hasattr(one, "state") else []
        attributes = {name: value for name, value in vars(one).items() if name not in {"state", "defaults"}}
        for tensor in _reachable([states, attributes], set()):
            storage = tensor.untyped_storage()
            if storage._cdata not in own:
                found[storage._cdata] = storage.nbytes()
    return sum(found.values())
