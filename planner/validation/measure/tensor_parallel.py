"""Tensor parallelism of Llama-shaped classes with torch's own plans, with and without sequence parallelism."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from planner.validation.measure.models import Refused

COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
ROWS = ("self_attn.o_proj", "mlp.down_proj")


def loss_context(job: dict[str, Any]) -> Any:
    """The loss on a split vocabulary, where there is one."""
    return loss_parallel() if job["degrees"]["tp"] > 1 else contextlib.nullcontext()


def split(model: Any, mesh: Any, *, sequence_parallel: bool) -> None:
    """Cut every block and the two ends. Raises Refused for a class that is not laid out like Llama."""
    inner: Any = getattr(model, "model", None)
    if not hasattr(inner, "layers") or not hasattr(inner.layers[0], "mlp") or not hasattr(inner, "embed_tokens"):
        raise Refused(f"tensor parallelism of {type(model).__name__} is not tried here: only Llama-shaped classes are")
    head: dict[str, Any] = {"output_layouts": Shard(-1), "use_local_output": False}
    block: dict[str, Any] = {name: ColwiseParallel() for name in COLUMNS}
    if sequence_parallel:
        ends: dict[str, Any] = {
            "model.embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "model.norm": SequenceParallel(),
            "lm_head": ColwiseParallel(input_layouts=Shard(1), **head),
        }
        block |= {name: RowwiseParallel(output_layouts=Shard(1)) for name in ROWS}
        block |= {
            "input_layernorm": SequenceParallel(use_local_output=True),
            "post_attention_layernorm": SequenceParallel(use_local_output=True),
            "self_attn": PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": Shard(1)},
                desired_input_kwarg_layouts={"hidden_states": Replicate()},
            ),
            "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        }
    else:
        embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate())
        ends = {"model.embed_tokens": embedding, "lm_head": ColwiseParallel(**head)}
        block |= {name: RowwiseParallel() for name in ROWS}
    parallelize_module(model, mesh, ends)
    for layer in inner.layers:
        parallelize_module(layer, mesh, block)
