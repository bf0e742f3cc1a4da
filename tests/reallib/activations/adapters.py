"""LoRA adapters of peft on a model made of fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import peft
import torch


def adapted(model: torch.nn.Module, case: dict[str, Any]) -> torch.nn.Module:
    """The model frozen, with adapters in the case's dtype."""
    targets = case["targets"]
    config = peft.LoraConfig(
        r=case["rank"],
        lora_alpha=2 * case["rank"],
        target_modules=targets if targets == "all-linear" else list(targets),
        init_lora_weights=True,
    )
    with _replacing_apply(), torch.device("cuda"):
        made = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
    if case["adapter_dtype"] == "fp32":
        _raise(made)
    made.train()
    return made


def _raise(model: torch.nn.Module) -> None:
    """Adapters in fp32, which `autocast_adapter_dtype=True` (the library's default) makes of 16-bit ones."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad:
                module._parameters[name] = torch.nn.Parameter(parameter.detach().float())


@contextmanager
def _replacing_apply() -> Iterator[None]:
    """`Module._apply` swaps the data of a parameter in place, which fake tensors do not allow: put in a new one."""
    usual = torch.nn.Module._apply

    def replacing(self: Any, function: Callable[[Any], Any], recurse: bool = True) -> Any:
        for child in self.children():
            child._apply(function)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = torch.nn.Parameter(function(parameter.detach()), parameter.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)
        return self

    torch.nn.Module._apply = replacing  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module._apply = usual  # type: ignore[method-assign]
