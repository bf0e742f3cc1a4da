"""DeepSpeed on CPU processes: the bytes that its engine holds for weights, gradients and optimizer of every rank."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from planner.validation.measure.models import Refused, built
from planner.validation.measure.optimizers import built_optimizers, plain, reachable

STEPS = 2
SETTINGS = ("stage3_param_persistence_threshold", "sub_group_size", "reduce_bucket_size", "contiguous_gradients")
"""Members of `zero_optimization` that a job may set."""
FLAT_GROUPS = ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat_partition")
GRADIENT_WORDS = ("grad", "ipg")


def library() -> Any:
    """The package. Raises Refused where it is not installed."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        return importlib.import_module("deepspeed")
    except ImportError as fault:
        raise Refused(f"this interpreter has no deepspeed: {fault}") from fault


def states(job: dict[str, Any], loss_of: Callable[[Any], Any]) -> dict[str, int]:
    """Bytes of one rank after two real steps; gradients as they stand before the last. Raises Refused."""
    deepspeed = library()
    logging.disable(logging.CRITICAL)
    accelerator = importlib.import_module("deepspeed.accelerator").get_accelerator()
    # The CPU accelerator denies fp16, which torch's CPU kernels run; states are the same.
    accelerator.is_fp16_supported = lambda: True
    accelerator.supported_dtypes = lambda: [torch.float, torch.bfloat16, torch.float16]
    deepspeed.init_distributed("gloo")
    model = built(job, dtype="fp32", device="cpu")
    made = built_optimizers(job, model)
    if len(made) != 1:
        raise Refused("deepspeed.initialize takes one optimizer, this is a hybrid of two")
    engine, *_ = deepspeed.initialize(model=model, optimizer=made[0], config=settings(job))
    try:
        for _ in range(STEPS):
            for number in range(job["batch"]["micro_batches"]):
                engine.backward(loss_of(engine))
                if number == job["batch"]["micro_batches"] - 1:
                    before = census(engine)
                engine.step()
        after = census(engine)
    finally:
        engine.destroy()
    return {
        "parameters": total(after, "weight"),
        "gradients": total(before, "gradient"),
        "optimizer": total(after, "optimizer"),
    }


def settings(job: dict[str, Any]) -> dict[str, Any]:
    """The engine's config of a job."""
    zero = {name: job["zero"][name] for name in SETTINGS if job["zero"].get(name) is not None}
    compute = job["precision"]["compute"]
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": job["batch"]["micro_batch_size"],
        "gradient_accumulation_steps": job["batch"]["micro_batches"],
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "zero_optimization": {"stage": job["zero_stage"], **zero},
        compute: {"enabled": True} | ({"loss_scale": 128} if compute == "fp16" else {}),
    }
    if job["zero"].get("grad_accum_dtype") is not None:
        made["data_types"] = {"grad_accum_dtype": job["zero"]["grad_accum_dtype"]}
    return made


def environment(rank: int, world: int) -> None:
    """What the engine reads of a launcher."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_SIZE": world}
    os.environ.update({name: str(value) for name, value in ranks.items()})


def total(held: dict[int, tuple[str, int]], word: str) -> int:
    """Bytes of one label."""
    return sum(size for label, size in held.values() if label == word)


def census(engine: Any) -> dict[int, tuple[str, int]]:
    """Every storage once, labelled by who was found to hold it first; communication buckets are `other`."""
    held: dict[int, tuple[str, int]] = {}
    for tensor, label in _holders(engine):
        for part in plain(tensor):
            storage = part.untyped_storage()
            if storage.nbytes():
                held.setdefault(storage._cdata, (label, storage.nbytes()))
    return held


def _holders(engine: Any) -> Iterator[tuple[Any, str]]:
    """Tensors and labels, the surest holder of each first."""
    parameters = list(engine.module.parameters())
    for parameter in parameters:
        yield from _each(parameter.data, "weight")
        yield from _each(getattr(parameter, "ds_tensor", None), "weight")
    for parameter in parameters:
        yield from _each(parameter.grad, "gradient")
    outer = engine.optimizer
    inner = outer.optimizer
    for group in inner.param_groups:
        for parameter in group["params"]:
            yield from _each(parameter, "optimizer")
            yield from _each(parameter.grad, "gradient")
        # A learning rate or a step that a library keeps as a tensor of the group.
        for value in group.values():
            yield from _each(value, "optimizer")
    for name in FLAT_GROUPS:
        for tensor in getattr(outer, name, None) or []:
            yield from _each(tensor, "optimizer")
    own = [value for name, value in vars(inner).items() if name not in {"state", "param_groups", "defaults"}]
    for tensor in reachable([[inner.state[key] for key in inner.state], own], set()):
        yield tensor, "optimizer"
    for name, value in vars(outer).items():
        if name not in {"optimizer", "module", "timers"}:
            label = "gradient" if any(word in name for word in GRADIENT_WORDS) and "ipg_bucket" not in name else "other"
            for tensor in reachable(value, set()):
                yield tensor, label if tensor.numel() > 1 else "other"


def _each(value: Any, label: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, torch.Tensor):
        yield value, label
