"""Fake CUDA tensors on a machine without a GPU. Import this before torch; g++ compiles the validation jobs' guard once.

What is changed in the libraries is only what stands between them and the path they take on a GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
SOURCE = Path(__file__).resolve().parents[3] / "planner" / "validation" / "measure" / "guard.cpp"


def _compiled() -> Path:
    """The guard as a shared library beside other temporary files, made anew when source or torch changes."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    version = (home / "version.py").read_bytes()
    mark = hashlib.sha256(SOURCE.read_bytes() + version + str(home).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"fake_cuda_guard_{os.getuid()}_{mark}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "guard.so"
        flags = ["-O1", "-std=c++20", "-fPIC", "-shared", f"-I{home}/include"]
        links = [f"-L{home}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{home}/lib"]
        subprocess.run(["g++", *flags, str(SOURCE), "-o", str(made), *links], check=True)
        library.write_bytes(made.read_bytes())
    return library


ctypes.CDLL(str(_compiled()), mode=ctypes.RTLD_GLOBAL).install()

import torch  # noqa: E402 - the guard must be there before torch looks for CUDA
import torch._meta_registrations as shapes  # noqa: E402
import torch.cuda.amp.common  # noqa: E402
import transformers  # noqa: E402
import transformers.masking_utils  # noqa: E402
from transformers.integrations import flash_attention as package  # noqa: E402

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


FLASH = "stand_in_kernel"
"""FlashAttention as transformers calls it, with torch's own kernel of the same algorithm in the package's place.
The word "flash" in the name would make transformers look for the package."""


def _kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **words: Any) -> torch.Tensor:
    target, dropped = words["target_dtype"], words["dropout"]
    heads = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    if target is not None:
        heads = [tensor.to(target) for tensor in heads]
    run = torch.ops.aten._scaled_dot_product_flash_attention
    return run(*heads, dropped, words["is_causal"], scale=words["softmax_scale"])[0].transpose(1, 2)


package._flash_attention_forward = _kernel
package._use_top_left_mask = False
transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS.register(FLASH, package.flash_attention_forward)
transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(
    FLASH, transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"]
)
