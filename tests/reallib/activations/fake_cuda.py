"""The validation jobs' fake CUDA, and FlashAttention as transformers calls it. Import this before torch."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import planner.validation.measure.fake_cuda  # noqa: E402, F401  # isort: skip - must come before torch
import torch  # noqa: E402
import transformers  # noqa: E402
import transformers.masking_utils  # noqa: E402
from transformers.integrations import flash_attention as package  # noqa: E402

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
