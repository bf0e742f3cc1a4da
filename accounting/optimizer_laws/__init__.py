"""Byte laws of the optimizers: registry rows applied to tensors as arrays."""

from accounting.optimizer_laws.options import OptionFault, check_options
from accounting.optimizer_laws.states import (
    StateBytes,
    complete_options,
    constant_bytes,
    needs_shapes,
    paged_bytes,
    state_bytes,
)
from accounting.optimizer_laws.steps import (
    step_flops,
    step_temporary,
    step_temporary_bytes,
    step_traffic_bytes_per_element,
)
from accounting.optimizer_laws.view import ModelFacts, TensorView

__all__ = [
    "ModelFacts",
    "OptionFault",
    "StateBytes",
    "TensorView",
    "check_options",
    "complete_options",
    "constant_bytes",
    "needs_shapes",
    "paged_bytes",
    "state_bytes",
    "step_flops",
    "step_temporary",
    "step_temporary_bytes",
    "step_traffic_bytes_per_element",
]
