"""Precision recipes: which dtype each part of the model states is held in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Dtype names of one recipe; None = not held (master), or 'as the library does' (optimizer states)."""

    name: str
    compute: str
    """What matrix multiplications read."""
    parameters: str
    gradients: str | None
    """What gradients are accumulated in. None = not held."""
    master_weights: str | None = None
    """The copy the optimizer steps on. None = it steps on the parameters themselves."""
    optimizer_states: str | None = None
    """None = the library's own rule: the dtype of what it steps on, or its fixed one."""
    reduce: str | None = None
    """What gradients travel in. None = the gradients' own dtype."""
    source: str = ""

    @property
    def stepped(self) -> str:
        """Dtype of the tensors the optimizer sees: the master copy where there is one."""
        return self.master_weights or self.parameters

    @property
    def activations(self) -> str:
        """Dtype that activations rest in: low-precision compute casts its inputs, the graph stays 16-bit."""
        return "bf16" if self.compute in {"fp8", "mxfp8", "nvfp4"} else self.compute


_AUTOCAST = "torch.amp.autocast or an FSDP mixed-precision policy over fp32 parameters; fp32 reduce"
_MASTER = "DeepSpeed bf16/fp16 optimizers: 16-bit weights and gradients, fp32 master and moments"
_MEGATRON = "Megatron-Core with fp32 main gradients (accumulate_allreduce_grads_in_fp32)"


def _mixed(name: str, compute: str, source: str = _AUTOCAST) -> Precision:
    return Precision(name=name, compute=compute, parameters="fp32", gradients="fp32", reduce="fp32", source=source)


def _master(name: str, compute: str, stored: str, gradients: str, source: str) -> Precision:
    return Precision(
        name=name,
        compute=compute,
        parameters=stored,
        gradients=gradients,
        master_weights="fp32",
        reduce=gradients,
        source=source,
    )


_ROWS = (
    Precision(name="fp32", compute="fp32", parameters="fp32", gradients="fp32", reduce="fp32", source="torch default"),
    _mixed("bf16-mixed", "bf16"),
    _mixed("fp16-mixed", "fp16"),
    _master("bf16-master", "bf16", "bf16", "bf16", _MASTER),
    _master("fp16-master", "fp16", "fp16", "fp16", _MASTER),
    _master("bf16-master-fp32grad", "bf16", "bf16", "fp32", _MEGATRON),
    Precision(
        name="bf16-pure",
        compute="bf16",
        parameters="bf16",
        gradients="bf16",
        reduce="bf16",
        source="torchtune default: everything in bf16, the moments follow the parameters",
    ),
    _mixed("fp8-mixed", "fp8", "torchao float8 training, Transformer Engine fp8_autocast over fp32 parameters"),
    _master("fp8-master", "fp8", "bf16", "fp32", f"{_MEGATRON}; Transformer Engine fp8 recipes"),
    _master("mxfp8-master", "mxfp8", "bf16", "fp32", f"{_MEGATRON}; Transformer Engine MXFP8BlockScaling"),
    _master("nvfp4-master", "nvfp4", "bf16", "fp32", f"{_MEGATRON}; Transformer Engine NVFP4BlockScaling"),
)
PRESETS: Mapping[str, Precision] = MappingProxyType({row.name: row for row in _ROWS})
"""Every preset of the request contract, in its order."""
