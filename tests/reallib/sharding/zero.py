"""DeepSpeed on CPU processes: what its engine holds before and after a step."""

# ruff: noqa: PLC0415 - the libraries are imported where they are known to be installed
from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import build
import torch
from torch import nn

from tests.reallib.sharding.cells import OPTIMIZERS, Cell, facts_of

SMALL_BUCKET = 50_000
GRADIENT_WORDS = ("grad", "ipg")


def config(cell: Cell) -> dict[str, Any]:
    word = cell.precision.partition("-")[0]
    zero = {name: value for name, value in cell.options.items() if name != "grad_accum_dtype"}
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "zero_optimization": {"stage": cell.stage, "reduce_bucket_size": SMALL_BUCKET, **zero},
        word: {"enabled": True} | ({"loss_scale": 128} if word == "fp16" else {}),
    }
    if "grad_accum_dtype" in cell.options:
        made["data_types"] = {"grad_accum_dtype": cell.options["grad_accum_dtype"]}
    return made


def run(
    cell: Cell,
    module: nn.Module,
    named_of: Callable[[nn.Module, Cell], build.Named],
    loss_of: Callable[[Any, Cell, torch.dtype], torch.Tensor],
) -> tuple[int, int, int]:
    logging.disable(logging.CRITICAL)
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    # The CPU accelerator denies fp16, which torch's CPU kernels run; states are the same.
    accelerator.is_fp16_supported = lambda: True
    accelerator.supported_dtypes = lambda: [torch.float, torch.bfloat16, torch.float16]
    deepspeed.init_distributed("gloo")
    made = build.build(OPTIMIZERS[cell.optimizer], dict(cell.optimizer_options), named_of(module, cell), facts_of(cell))
    # It takes one optimizer: of a hybrid, the part for matrices, which then meets flat partitions.
    engine, *_ = deepspeed.initialize(model=module, optimizer=made[0], config=config(cell))
    dtype = torch.float16 if cell.precision.startswith("fp16") else torch.bfloat16
    try:
        for _ in range(2):
            engine.backward(loss_of(engine, cell, dtype))
            before = census(engine)
            engine.step()
        after = census(engine)
    finally:
        engine.destroy()
    weights = total(after, "weight")
    return weights, total(before, "gradient"), total(after, "optimizer")


def total(held: dict[int, tuple[str, int]], word: str) -> int:
    return sum(size for label, size in held.values() if label == word)


def census(engine: Any) -> dict[int, tuple[str, int]]:
    """Every storage once, named by who was found to hold it first; buckets are none of the three."""
    held: dict[int, tuple[str, int]] = {}

    def put(tensor: Any, label: str) -> None:
        if isinstance(tensor, torch.Tensor):
            for part in build._plain(tensor):
                storage = part.untyped_storage()
                if storage.nbytes():
                    held.setdefault(storage._cdata, (label, storage.nbytes()))

    parameters = list(engine.module.parameters())
    for parameter in parameters:
        put(parameter.data, "weight")
        put(getattr(parameter, "ds_tensor", None), "weight")
    for parameter in parameters:
        put(parameter.grad, "gradient")
    outer = engine.optimizer
    inner = outer.optimizer
    for group in inner.param_groups:
        for parameter in group["params"]:
            put(parameter, "optimizer")
            put(parameter.grad, "gradient")
        # A learning rate or a step that a library keeps as a tensor of the group.
        for value in group.values():
            put(value, "optimizer")
    for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat_partition"):
        for tensor in getattr(outer, name, None) or []:
            put(tensor, "optimizer")
    for tensor in build._reachable([inner.state[key] for key in inner.state], set()):
        put(tensor, "optimizer")
    for name, value in vars(inner).items():
        if name not in {"state", "param_groups", "defaults"}:
            for tensor in build._reachable(value, set()):
                put(tensor, "optimizer")
    for name, value in vars(outer).items():
        if name not in {"optimizer", "module", "timers"}:
            label = "gradient" if any(word in name for word in GRADIENT_WORDS) and "ipg_bucket" not in name else "other"
            for tensor in build._reachable(value, set()):
                put(tensor, label if tensor.numel() > 1 else "other")
    return held
