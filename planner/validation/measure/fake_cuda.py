"""Fake CUDA tensors on a machine without a GPU. Import this before torch; it compiles guard.cpp once with g++.

What is changed in the libraries is only what stands between them and the path they take on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("guard.cpp")


def _compiled() -> Path:
    """The guard as a shared library beside other temporary files, made anew when source or torch changes."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    version = (home / "version.py").read_bytes()
    mark = hashlib.sha256(SOURCE.read_bytes() + version + str(home).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("VALIDATION_CACHE", tempfile.gettempdir()))
    library = cache / f"fake_cuda_guard_{os.getuid()}_{mark}.so"
    if library.exists() and library.stat().st_uid == os.getuid():
        return library
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "guard.so"
        flags = ["-O1", "-std=c++20", "-fPIC", "-shared", f"-I{home}/include"]
        links = [f"-L{home}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{home}/lib"]
        subprocess.run(["g++", *flags, str(SOURCE), "-o", str(made), *links], check=True)
        whole = library.with_suffix(f".{os.getpid()}")
        whole.write_bytes(made.read_bytes())
        whole.replace(library)
    return library


ctypes.CDLL(str(_compiled()), mode=ctypes.RTLD_GLOBAL).install()

import torch  # noqa: E402 - the guard must be there before torch looks for CUDA
import torch._meta_registrations as shapes  # noqa: E402
import torch.cuda.amp.common  # noqa: E402
import transformers  # noqa: E402
import transformers.masking_utils  # noqa: E402

transformers.logging.set_verbosity_error()
torch.cuda.amp.common.amp_definitely_not_available = lambda: False
torch.cuda.is_bf16_supported = lambda *_, **__: True
torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
# The values of fake position ids cannot be looked at; on a GPU unpacked rows make this None and the mask is dropped.
transformers.masking_utils.find_packed_sequence_indices = lambda position_ids: None
# The shape function of a grouped product refuses fp32, which the CUDA kernel takes.
shapes._meta_grouped_mm_common = lambda a, b, scale_a, scale_b, offs, bias, scale_result, out_dtype, **_: (
    shapes._create_grouped_mm_output_tensor(a, b, offs, out_dtype)
)
_KERNELS = torch.library.Library("aten", "IMPL", "CUDA")
# A build without CUDA falls back to a composite of several operators here; the CUDA build has one kernel.
_KERNELS.impl("silu_backward", lambda gradient, value: torch.empty_like(value))


class _Inert:
    """A stream or an event: answers every call, waits for nothing."""

    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record_event(self, *_: Any) -> _Inert:
        return _Inert()

    def query(self) -> bool:
        return True

    def _nothing(self, *_: Any) -> None:
        pass

    wait = wait_stream = wait_event = synchronize = record = _nothing

    def __enter__(self) -> _Inert:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def pretend_a_runtime() -> None:
    """FSDP2 and checkpointing ask torch.cuda for streams, events and random states; a CPU build has none."""
    cuda = torch.cuda
    cuda.Stream, cuda.Event = _Inert, _Inert
    cuda.current_stream = cuda.default_stream = lambda *_, **__: _Inert()
    cuda.stream = lambda _: contextlib.nullcontext()
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.is_available = cuda.is_initialized = lambda: True
    for name in ("set_stream", "synchronize", "set_device", "_lazy_init", "set_rng_state"):
        setattr(cuda, name, lambda *_, **__: None)
    cuda.get_rng_state = lambda *_, **__: torch.empty(16, dtype=torch.uint8, device="cpu")
    cuda.is_current_stream_capturing = lambda: False
