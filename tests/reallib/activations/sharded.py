"""Peak of an FSDP2 iteration of a transformers model on a fake process group, by torch's own memory tracker.

Parameters are sharded in fp32, gathered in bf16 and reduced in fp32; the optimizer is the fused AdamW; blocks and root
are one unit each. The second iteration is read, in which optimizer states exist.

    python -m tests.reallib.activations.sharded < cases.jsonl > measured.jsonl
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import Any

from tests.accounting.memory.sharded_models import config_of

from tests.reallib.activations.saved import batch_of, built  # isort: skip - loads the fake device before torch
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

warnings.filterwarnings("ignore")
POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Idle:
    """A stream and an event on which nothing ever waits."""

    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def wait_stream(self, *_: Any) -> None: ...
    def wait_event(self, *_: Any) -> None: ...
    def record(self, *_: Any) -> None: ...
    def wait(self, *_: Any) -> None: ...
    def synchronize(self) -> None: ...

    def record_event(self, *_: Any) -> Idle:
        return Idle()

    def query(self) -> bool:
        return True

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: Any) -> None: ...


def pretend_streams() -> None:
    """Give the sharding code the streams, events and device index it asks torch.cuda for."""
    cuda: Any = torch.cuda
    cuda.Stream = cuda.Event = Idle
    cuda.current_stream = cuda.default_stream = lambda *_, **__: Idle()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.is_available = cuda.is_initialized = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    for name in ("set_device", "set_stream", "synchronize", "_lazy_init"):
        setattr(cuda, name, lambda *_, **__: None)


class PeakOnly(FSDPMemTracker):
    """The tracker without its snapshots of every module.

    Where two gradients of one tensor meet, the engine adds in place, but not for subclasses of tensors such as these:
    the third tensor it makes instead exists in no real run, so that instant is no peak.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        in_backward = not torch.is_grad_enabled() and torch._C._current_graph_task_id() != -1
        self.accumulates = func is torch.ops.aten.add.Tensor and in_backward and len(args) == 2 and not kwargs
        return super().__torch_dispatch__(func, types, args, kwargs or {})

    def _update_peak_stats(self, _: Any) -> None:
        if getattr(self, "accumulates", False):
            return
        for device, held in self._curr_mem_snap.items():
            if held["Total"] > self._peak_mem.get(device, 0):
                self._peak_mem[device] = held["Total"]
                self._peak_mem_snap[device] = dict(held)

    def reset(self) -> None:
        """Start looking for a peak from what is held now."""
        self.reset_mod_stats()
        self._peak_mem_snap = {device: dict(held) for device, held in self._curr_mem_snap.items()}
        self._peak_mem = {device: held["Total"] for device, held in self._peak_mem_snap.items()}

    def peak(self) -> dict[str, int]:
        """Bytes on the device at the largest instant, by category and `Total`."""
        device = next(device for device in self._peak_mem_snap if device.type == "cuda")
        return {getattr(key, "value", str(key)): size for key, size in self._peak_mem_snap[device].items()}


def blocks_of(model: torch.nn.Module) -> torch.nn.ModuleList:
    """The longest list of modules: the decoder's blocks."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len)


def measure(case: dict[str, Any]) -> dict[str, int]:
    """Bytes of rank 0 at the peak of the second iteration, by category."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=0, world_size=case["ranks"], store=FakeStore())
    mesh = init_device_mesh("cuda", (case["ranks"],))
    config = config_of(case)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built({**case, "recipe": "fp32"}, config)
        for block in blocks_of(model):
            fully_shard(block, mesh=mesh, mp_policy=POLICY, reshard_after_forward=case["reshard"])
        fully_shard(model, mesh=mesh, mp_policy=POLICY, reshard_after_forward=case["reshard"])
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        batch = batch_of(config, case)
        tracker = PeakOnly(model, optimizer)
        tracker.track_inputs(tuple(batch.values()))
        with tracker:
            for _ in range(2):
                tracker.reset()
                loss = model(**batch).loss
                loss.backward()
                del loss
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        return tracker.peak()


def main() -> None:
    pretend_streams()
    for line in sys.stdin:
        case = json.loads(line)
        try:
            held = measure(case)
        except Exception as fault:  # noqa: BLE001 - the test that reads this says which case broke, and how
            answer: dict[str, Any] = {**case, "error": f"{type(fault).__name__}: {fault}"[:500]}
        else:
            answer = {**case, "peak_bytes": held.pop("Total")}
            if "--categories" in sys.argv:
                answer["categories"] = held
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
