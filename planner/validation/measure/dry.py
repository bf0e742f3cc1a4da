"""Dry run: the real training step on fake tensors under the framework's memory tracker, no byte allocated."""

from __future__ import annotations

import contextlib
from typing import Any

from planner.validation.measure import fake_cuda  # isort: skip - must come before torch
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from planner.validation.measure import tensor_parallel
from planner.validation.measure.models import (
    DTYPES,
    Refused,
    batch_of,
    blocks_of,
    built,
    loss_and_outputs,
    recompute,
)
from planner.validation.measure.optimizers import built_optimizers

AXES = ("dp_replicate", "dp_shard", "tp")


class _Lean:
    """A tracker that keeps the peak of each phase and no statistics per module: the same numbers, much faster.

    Where two gradients meet, the real engine adds in place; for subclasses of tensors, which fake ones are, it makes a
    third tensor. That instant is tracked and not taken for a peak.
    """

    _skipped = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._skipped = (
            func is torch.ops.aten.add.Tensor
            and not kwargs
            and len(args) == 2  # noqa: PLR2004 - a plain sum
            and not torch.is_grad_enabled()
            and torch._C._current_graph_task_id() != -1
        )
        return super().__torch_dispatch__(func, types, args, kwargs or {})  # type: ignore[misc]

    def _update_peak_stats(self, peak_state: Any) -> None:
        if self._skipped:
            return
        own: Any = self
        for device, snapshot in own._curr_mem_snap.items():
            if own._peak_mem.get(device, 0) < snapshot["Total"]:
                own._peak_mem[device] = snapshot["Total"]
                own._peak_mem_snap[device] = dict(snapshot)

    def get_tracker_snapshot(self, type: str = "current") -> dict[Any, dict[Any, int]]:  # noqa: A002 - the base's name
        own: Any = self
        kept = own._curr_mem_snap if type == "current" else own._peak_mem_snap
        return {device: dict(snapshot) for device, snapshot in kept.items()}

    def new_phase(self) -> None:
        own: Any = self
        own._peak_mem_snap = self.get_tracker_snapshot()
        own._peak_mem = {device: snapshot["Total"] for device, snapshot in own._peak_mem_snap.items()}

    def peak(self) -> dict[str, int]:
        """Bytes on the device by the tracker's own categories, at the highest moment since `new_phase`."""
        found: dict[str, int] = {}
        for device, snapshot in self.get_tracker_snapshot("peak").items():
            if device.type == "cuda":
                for name, amount in snapshot.items():
                    word = str(getattr(name, "value", name))
                    found[word] = found.get(word, 0) + int(amount)
        return found


class _Tracker(_Lean, MemTracker):  # type: ignore[misc]
    pass


class _ShardTracker(_Lean, FSDPMemTracker):  # type: ignore[misc]
    pass


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Peak of each phase of the second step, on rank 0 of fake process groups of the planned size."""
    world, shards = job["world"], job["engine"] == "fsdp2"
    if world > 1 or shards:
        fake_cuda.pretend_a_runtime()
        _leave_out_shape_propagation()
        _leave_out_meshes()
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    # FSDP2 wraps a group of one rank too: the casts of mixed precision are its own.
    used = {name: size for name in AXES if (size := job["degrees"][name]) > 1 or (shards and name == "dp_shard")}
    # The mesh holds real numbers of ranks: it is made outside.
    mesh = init_device_mesh("cuda", tuple(used.values()), mesh_dim_names=tuple(used)) if used else None
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, tracker_of = _laid_out(job, mesh)
        optimizer = _single(built_optimizers(job, model))
        batch = batch_of(job, model, "cuda")
        tracker = tracker_of(model, optimizer)
        if isinstance(tracker, _ShardTracker):
            tracker.track_inputs(tuple(batch.values()))
        else:
            tracker.track_external(model, *batch.values())
        with tracker:
            for _ in range(2):
                phases = _step(job, model, optimizer, batch, tracker)
    return {"phases": phases, "parameters": sum(parameter.numel() for parameter in model.parameters())}


def _single(made: list[Any]) -> Any:
    """The tracker follows one optimizer. Raises Refused."""
    if len(made) != 1:
        raise Refused("the tracker follows one optimizer, this is a hybrid of two")
    return made[0]


def _step(job: dict[str, Any], model: Any, optimizer: Any, batch: dict[str, Any], tracker: Any) -> dict[str, Any]:
    tracker.reset_mod_stats()
    cast = torch.autocast("cuda", DTYPES[job["precision"]["compute"]]) if job["autocast"] else contextlib.nullcontext()
    split = tensor_parallel.loss_context(job)
    found = {}
    with split:
        tracker.new_phase()
        with cast:
            loss, outputs = loss_and_outputs(job, model, batch)
        found["forward"] = tracker.peak()
        tracker.new_phase()
        loss.backward()
        del loss, outputs
        found["backward"] = tracker.peak()
    tracker.new_phase()
    optimizer.step()
    found["optimizer_step"] = tracker.peak()
    optimizer.zero_grad(set_to_none=True)
    return found


def _laid_out(job: dict[str, Any], mesh: Any) -> tuple[Any, Any]:
    """(the model as the engine holds it, what makes its tracker)."""
    model = built(job, dtype=job["precision"]["parameters"], device="cuda", weights=False)
    recompute(model, job["recompute"])
    if mesh is None:
        return model, lambda _, __: _Tracker()
    if job["degrees"]["tp"] > 1:
        tensor_parallel.split(model, mesh["tp"], sequence_parallel=job["sequence_parallel"])
    data = tuple(name for name in mesh.mesh_dim_names if name != "tp")
    if not data or job["engine"] != "fsdp2":
        return model, lambda _, __: _Tracker()
    _shard(job, model, mesh[data])
    return model, _ShardTracker


def _shard(job: dict[str, Any], model: Any, mesh: Any) -> None:
    mixed = job["precision"]["compute"] != job["precision"]["parameters"]
    policy = MixedPrecisionPolicy(
        param_dtype=DTYPES[job["precision"]["compute"]] if mixed else None,
        reduce_dtype=DTYPES[job["precision"]["reduce"]] if job["precision"]["reduce"] else None,
    )
    keep: dict[str, Any] = {"mesh": mesh, "mp_policy": policy, "reshard_after_forward": job["reshard_after_forward"]}
    for block in blocks_of(model):
        fully_shard(block, **keep)
    fully_shard(model, **keep)


def _leave_out_shape_propagation() -> None:
    """DTensor works out shapes by running each operator on whole fake tensors; those are no part of the run."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator  # noqa: PLC0415 - only under a group

    plain = ShardingPropagator._propagate_tensor_meta_non_cached
    if plain.__name__ == "apart":
        return

    def apart(self: Any, schema: Any) -> Any:
        with _disable_current_modes():
            return plain(self, schema)

    ShardingPropagator._propagate_tensor_meta_non_cached = apart


def _leave_out_meshes() -> None:
    """FSDP2 over tensor parallelism joins two meshes: real numbers of ranks, which fake tensors cannot look at."""
    plain = DeviceMesh._concatenate
    if plain.__name__ == "apart":
        return

    def apart(meshes: Any) -> Any:
        with _disable_current_modes():
            return plain(meshes)

    DeviceMesh._concatenate = staticmethod(apart)
