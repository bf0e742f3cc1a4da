"""Matrix products by their real shapes: every linear weight of a block, the experts' grouped products, the head."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from accounting.facts.dtypes import find_dtype
from accounting.partition import LocalTensor
from accounting.step_time.clock import Clock
from accounting.units import Floats

_FUSED = ({"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"})
"""Weights that read the same input: priced as one product, as fused kernels and a busy queue run them."""
_WHOLE = frozenset({"fp32", "bf16", "fp16"})


@dataclass(frozen=True, slots=True)
class Product:
    """`copies` products of (rows × inner) by (inner × columns) on a rank, (N, 1) each."""

    rows: Floats
    columns: Floats
    inner: Floats
    copies: Floats
    trainable: bool
    low_precision: bool
    grouped: bool = False
    """Experts' products, one of many small ones in a launch."""
    unpacked: float = 0.0
    """Traffic of turning a quantised weight into 16 bits before each use. [byte per element]"""


def block_products(clock: Clock, unit: int) -> tuple[Product, ...]:
    """The products of one block of a layer kind, weights with the same input joined."""
    items = [item for item in clock.partition.local if item.unit == unit and item.tensor.linear]
    joined: list[Product] = []
    for names in _FUSED:
        same = [
            item for item in items if item.tensor.module in names and not item.tensor.expert and not item.tensor.adapter
        ]
        if len(same) > 1 and len({item.tensor.shape[item.tensor.input_dim] for item in same}) == 1:
            products = [_product(clock, item) for item in same]
            joined.append(_join(products))
            items = [item for item in items if item not in same]
    return (*joined, *(_product(clock, item) for item in items))


def _join(products: list[Product]) -> Product:
    first = products[0]
    columns = sum((item.columns for item in products[1:]), first.columns)
    trainable = any(item.trainable for item in products)
    return replace(first, columns=columns, trainable=trainable)


def _product(clock: Clock, item: LocalTensor) -> Product:
    tensor = item.tensor
    inner_axis = tensor.input_dim if len(item.dims) == 2 else len(item.dims) - 1  # noqa: PLR2004 - a matrix
    inner = item.dims[inner_axis].astype(np.float64)
    columns = item.elements / inner
    rows, copies = clock.tokens, np.full_like(clock.tokens, tensor.count)
    if tensor.expert:
        rows, copies = expert_rows(clock, tensor.count)
    small = clock.low_precision is not None
    unpacked = _unpacked_bytes(clock, item)
    return Product(rows, columns, inner, copies, tensor.trainable, small, grouped=tensor.expert, unpacked=unpacked)


def _unpacked_bytes(clock: Clock, item: LocalTensor) -> float:
    """Reading a frozen weight in its low-bit type and writing it in 16 bits; 0 where it is stored whole."""
    adapter = clock.scenario.recipe.adapter
    if adapter is None or adapter.base_dtype in _WHOLE or not item.tensor.quantisable or item.tensor.trainable:
        return 0.0
    return float(find_dtype(adapter.base_dtype).bytes_per_element) + clock.activation_bytes


def expert_rows(clock: Clock, experts: int) -> tuple[Floats, Floats]:
    """(tokens one expert of a rank sees, experts of a rank), (N, 1) each.

    Every rank sends tokens·k·etp/tp token copies; ep ranks share the experts; the busiest rank has `expert_imbalance`
    times the mean.
    """
    layout, mixture = clock.scenario.layout, clock.architecture.moe
    chosen = mixture.top_k if mixture else 1
    held = np.ceil(experts / layout.ep)
    sent = clock.tokens * chosen * layout.etp / layout.tp
    rows = sent * layout.ep / (held * layout.ep) * clock.scenario.recipe.options.expert_imbalance
    return rows, held


def head_product(clock: Clock) -> Product:
    """Logits: tokens × hidden by hidden × vocabulary, the vocabulary cut by tensor parallelism; kept in 16 bits."""
    columns = np.ceil(clock.architecture.vocab_size / clock.tp)
    inner = np.full_like(clock.tp, clock.architecture.hidden_size)
    return Product(clock.tokens, columns, inner, np.ones_like(clock.tp), clock.scenario.recipe.adapter is None, False)


def has_head(clock: Clock) -> bool:
    """Whether the last stage multiplies with the vocabulary; a model with labels has a negligible head."""
    return clock.architecture.head in {"lm", "masked_lm"}


def product_seconds(clock: Clock, product: Product) -> Floats:
    """Time of the forward product. [second, (N, 1)]

    max(2·(M + p)(N + p)(K + r)/(P·e), 2·(M·K + K·N + M·N)/W) + t0 per copy: p rows and columns of tile waste, r of the
    pipeline's filling, e the device's efficiency. Low precision divides by its own peak and adds its casts; a quantised
    base is unpacked before every use.
    Source: measured GEMM tables (aiconfigurator 0.12.0 digest); constants by fit.
    """
    device = clock.device
    rows, columns, inner = product.rows, product.columns, product.inner
    padded = 2 * (rows + device.gemm_padding) * (columns + device.gemm_padding) * (inner + device.gemm_ramp)
    moved = clock.activation_bytes * (rows * (inner + columns) + inner * columns) / clock.memory_rate
    reach = device.gemm_efficiency * (clock.kernel.grouped if product.grouped else 1.0)
    # the style's speed was fitted on tensor-core products
    reach = reach * np.where(device.single > 0, 1.0, clock.kernel.products)
    peak, cast = device.dense_peak * reach, np.zeros_like(rows)
    if product.low_precision and clock.low_precision is not None:
        peak = clock.scenario.machine.peak_flops * reach * clock.low_precision.efficiency * device.narrow_gain
        recast = clock.low_precision.cast_weights * inner * columns
        cast = clock.low_precision.cast * (rows * (inner + columns) + recast) / clock.memory_rate
    if product.unpacked:
        cast = cast + product.unpacked * columns * inner / clock.memory_rate
    return product.copies * (np.maximum(padded / peak, moved) + cast) + device.kernel_seconds


def backward_factor(product: Product) -> float:
    """Backward over forward: input and weight gradients; a frozen weight needs only the first."""
    return 2.0 if product.trainable else 1.0
