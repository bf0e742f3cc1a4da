"""CPU run: the real optimizer under the real sharding engine on gloo processes; the bytes every rank holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

from planner.validation.measure import zero
from planner.validation.measure.models import DTYPES, batch_of, blocks_of, built, loss_of
from planner.validation.measure.optimizers import built_optimizers, held_bytes, storages
from planner.validation.measure.ranks import on_ranks

STEPS = 2
"""States that appear with the second step are there after it."""
STRATEGIES = {2: "SHARD_GRAD_OP", 3: "FULL_SHARD"}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Bytes of parameters, gradients and optimizer on every rank after two real steps. Raises Refused."""
    world = job["world"]
    if world == 1 and job["engine"] != "deepspeed":  # whose engine wants a group even of one
        return {"ranks": [_one(job)]}
    if job["engine"] == "deepspeed":
        zero.library()  # once, before the ranks part
    return {"ranks": on_ranks(world, lambda: _one(job))}


def _one(job: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    if job["engine"] == "deepspeed":
        return zero.states(job, lambda engine: loss_of(engine, batch_of(job, engine.module, "cpu")))
    model = built(job, dtype=job["precision"]["parameters"], device="cpu")
    wrapped = ENGINES[job["engine"]](job, model)
    optimizers = built_optimizers(job, wrapped)
    batch = batch_of(job, model, "cpu")
    found: dict[str, Any] = {}
    for step in range(STEPS):
        for one in optimizers:
            one.zero_grad(set_to_none=True)
        for _ in range(job["batch"]["micro_batches"] - 1):
            with _unsynced(job, wrapped):
                _loss(job, wrapped, batch).backward()
        _loss(job, wrapped, batch).backward()
        if step == STEPS - 1:
            found["gradients"] = _gradients(job, wrapped)
        for one in optimizers:
            one.step()
    parameters = list(wrapped.parameters())
    found["parameters"] = sum(storages(_held_parameters(job, wrapped)).values())
    found["optimizer"] = held_bytes(optimizers, parameters)
    return found


def _loss(job: dict[str, Any], model: Any, batch: dict[str, Any]) -> Any:
    cast = torch.autocast("cpu", DTYPES[job["precision"]["compute"]]) if job["autocast"] else contextlib.nullcontext()
    with cast:
        return loss_of(model, batch)


@contextlib.contextmanager
def _unsynced(job: dict[str, Any], model: Any) -> Any:
    if not job["no_sync"]:
        yield
    elif job["engine"] == "fsdp2":
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)
    else:
        with model.no_sync():
            yield


def _ddp(job: dict[str, Any], model: Any) -> Any:
    if not dist.is_initialized():
        return model
    return DistributedDataParallel(model, gradient_as_bucket_view=job["gradient_as_bucket_view"])


def _fsdp1(job: dict[str, Any], model: Any) -> Any:
    settings: dict[str, Any] = {"device_id": torch.device("cpu"), "use_orig_params": job["use_orig_params"]}
    settings["sharding_strategy"] = ShardingStrategy[STRATEGIES.get(job["zero_stage"], "NO_SHARD")]
    if blocks := {type(block) for block in blocks_of(model)}:
        settings["auto_wrap_policy"] = ModuleWrapPolicy(blocks)
    if (mixed := _mixed(job)) is not None:
        settings["mixed_precision"] = MixedPrecision(**mixed, buffer_dtype=mixed["param_dtype"])
    return FullyShardedDataParallel(model, **settings)


def _fsdp2(job: dict[str, Any], model: Any) -> Any:
    settings: dict[str, Any] = {"reshard_after_forward": job["reshard_after_forward"]}
    if (mixed := _mixed(job)) is not None:
        settings["mp_policy"] = MixedPrecisionPolicy(**mixed)
    if not dist.is_initialized():
        return model
    for block in blocks_of(model):
        fully_shard(block, **settings)
    fully_shard(model, **settings)
    return model


def _mixed(job: dict[str, Any]) -> dict[str, Any] | None:
    precision = job["precision"]
    if precision["compute"] == precision["parameters"]:
        return None
    return {"param_dtype": DTYPES[precision["compute"]], "reduce_dtype": DTYPES[precision["reduce"]]}


ENGINES: Mapping[str, Callable[[dict[str, Any], Any], Any]] = {"ddp": _ddp, "fsdp1": _fsdp1, "fsdp2": _fsdp2}
"""How each engine wraps a model; on one rank without a group some leave it as it is."""


def _units(model: Any) -> list[Any]:
    """FSDP1's flat parameters, one a wrapped unit."""
    modules = FullyShardedDataParallel.fsdp_modules(model)
    return [module._handle.flat_param for module in modules if module._handle is not None]


def _held_parameters(job: dict[str, Any], model: Any) -> list[Any]:
    if not isinstance(model, FullyShardedDataParallel):
        return list(model.parameters())
    shards = (getattr(flat, "_local_shard", None) for flat in _units(model))
    return [shard if shard is not None else flat for shard, flat in zip(shards, _units(model), strict=True)]


def _gradients(job: dict[str, Any], model: Any) -> int:
    held = _units(model) if isinstance(model, FullyShardedDataParallel) else model.parameters()
    found = [one.grad for one in held if one.grad is not None]
    if not found:
        found = [one.grad for one in model.parameters() if one.grad is not None]
    return sum(storages(found).values())
