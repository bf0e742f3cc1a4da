"""Bytes that autograd really holds between the forward and the backward of a transformers model."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.reallib.activations import fake_cuda  # isort: skip - must come before torch
import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

PARAMETERS = {
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "autocast": torch.float32,
    "autocast-16-bit-base": torch.bfloat16,
}


class Casts(TorchDispatchMode):
    """Storages that are copies of parameters in another dtype: what autocast makes of weights."""

    def __init__(self, weights: set[int]) -> None:
        super().__init__()
        self.weights = weights
        self.copies: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].untyped_storage()._cdata in self.weights:
            storage = made.untyped_storage()
            self.copies[storage._cdata] = storage
        return made


@dataclass
class Ledger:
    """Every saved storage once; parameters, buffers and the input batch are not counted."""

    model: torch.nn.Module
    batch: dict[str, torch.Tensor]
    storages: dict[int, Any] = field(default_factory=dict)
    """Held on to, so that no address is used twice."""
    places: dict[int, str] = field(default_factory=dict)
    """Module, shape and dtype of each, for people."""
    copies: frozenset[int] = frozenset()
    _running: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        weights = {tensor.untyped_storage()._cdata for tensor in (*self.model.parameters(), *self.model.buffers())}
        excluded = weights | {tensor.untyped_storage()._cdata for tensor in self.batch.values()}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in excluded and storage._cdata not in self.storages:
                self.storages[storage._cdata] = storage
                where = self._running[-1] if self._running else ""
                self.places[storage._cdata] = f"{where} {tuple(tensor.shape)} {str(tensor.dtype)[6:]}"
            return tensor

        hooks = []
        for name, module in self.model.named_modules():
            hooks.append(module.register_forward_pre_hook(lambda *_, name=name: self._running.append(name)))
            hooks.append(module.register_forward_hook(lambda *_: self._left(), always_call=True))
        with Casts(weights) as casts, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield
        self.copies = frozenset(casts.copies)
        for hook in hooks:
            hook.remove()

    def _left(self) -> None:
        self._running.pop()

    def held(self, *, copies: bool) -> int:
        """Bytes of the 16-bit copies of weights, or of all the rest."""
        return sum(s.nbytes() for key, s in self.storages.items() if (key in self.copies) == copies)

    def lines(self) -> Counter[str]:
        """Bytes by place, the number of a block left out of its name."""
        found: Counter[str] = Counter()
        for key, storage in self.storages.items():
            mark = "copy " if key in self.copies else ""
            words = ".".join("*" if word.isdigit() else word for word in self.places[key].split("."))
            found[f"{mark}{words} = {storage.nbytes()}"] += 1
        return found


def built(case: dict[str, Any], config: dict[str, Any]) -> torch.nn.Module:
    """The model of a case, weights never set. Call inside a FakeTensorMode."""
    config = {**config, "use_cache": False}
    made = transformers.AutoConfig.for_model(**config)
    made._attn_implementation = fake_cuda.FLASH if case["attention"] == "flash" else case["attention"]
    kind = getattr(transformers, config["architectures"][0])
    default = torch.get_default_dtype()
    torch.set_default_dtype(PARAMETERS[case["recipe"]])
    try:
        with torch.device("cuda"), transformers.initialization.no_init_weights():
            model = kind(made)
    finally:
        torch.set_default_dtype(default)
    model.tie_weights()
    if config.get("num_local_experts") or config.get("num_experts") or config.get("n_routed_experts"):
        model.set_experts_implementation("grouped_mm")
    model.train()
    if case.get("targets"):
        from tests.reallib.activations import adapters  # noqa: PLC0415 - needs peft

        model = adapters.adapted(model, case)
    if case["recompute"] == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        if case.get("targets"):
            model.enable_input_require_grads()
    return model


def batch_of(config: dict[str, Any], case: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Token ids and labels of the case's shape; rows are full, so no attention mask is handed over."""
    shape = (case["micro_batch"], case["sequence"])
    words = {"input_ids", "labels"}
    return {word: torch.zeros(shape, dtype=torch.long, device="cuda") for word in sorted(words)}


def measure(case: dict[str, Any], config: dict[str, Any]) -> Ledger:
    """One forward with hooks on everything autograd keeps."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built(case, config)
        batch = batch_of(config, case)
        ledger = Ledger(model, batch)
        cast = (
            torch.autocast("cuda", torch.bfloat16)
            if case["recipe"].startswith("autocast")
            else contextlib.nullcontext()
        )
        with ledger.watching(), cast:
            loss = model(**batch).loss
        assert loss.requires_grad
    return ledger
