"""CPU run: the real optimizer under the real sharding engine on gloo processes; the bytes every rank holds."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from pathlib import Path
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

from planner.validation.measure.limits import end_with_parent
from planner.validation.measure.models import DTYPES, Refused, batch_of, blocks_of, built, loss_of
from planner.validation.measure.optimizers import built_optimizers, held_bytes, storages

STEPS = 2
"""States that appear with the second step are there after it."""
STRATEGIES = {2: "SHARD_GRAD_OP", 3: "FULL_SHARD"}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Bytes of parameters, gradients and optimizer on every rank after two real steps. Raises Refused."""
    world = job["world"]
    if world == 1:
        return {"ranks": [_one(job)]}
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as scratch:
        meeting = str(Path(scratch) / "meeting")
        pairs = [context.Pipe(duplex=False) for _ in range(world)]
        ranks = [
            context.Process(target=_rank, args=(job, rank, meeting, pairs[rank][1]), daemon=True)
            for rank in range(world)
        ]
        for process in ranks:
            process.start()
        for _, sender in pairs:
            sender.close()
        try:
            answers = [_received(receiver) for receiver, _ in pairs]
        finally:
            for process in ranks:
                process.kill()
                process.join()
    refused = [answer["error"] for answer in answers if "error" in answer]
    if refused:
        raise Refused(refused[0])
    return {"ranks": answers}


def _received(receiver: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = receiver.recv()
    except EOFError:
        return {"error": "a rank ended without an answer"}
    return answer


def _rank(job: dict[str, Any], rank: int, meeting: str, sender: Any) -> None:
    end_with_parent()
    torch.set_num_threads(1)
    try:
        store = dist.FileStore(meeting, job["world"])
        dist.init_process_group("gloo", store=store, rank=rank, world_size=job["world"])
        sender.send(_one(job))
        dist.barrier()
        dist.destroy_process_group()
    except Exception as fault:  # noqa: BLE001 - told to the process that asked, whatever it is
        sender.send({"error": f"{type(fault).__name__}: {fault}"[:600]})


def _one(job: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = built(job, dtype=job["precision"]["parameters"], device="cpu")
    wrapped = _engine_of(job)(job, model)
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


ENGINES = {"ddp": _ddp, "fsdp1": _fsdp1, "fsdp2": _fsdp2}


def _engine_of(job: dict[str, Any]) -> Any:
    return ENGINES[job["engine"]]


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
