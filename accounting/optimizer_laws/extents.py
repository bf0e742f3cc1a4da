"""How many elements one state buffer of a tensor has. Every function: (view, options) -> int64 array. [element]

Symbols in bodies: n elements, s a dimension, a × b a matrix, k = min(a, b), r rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from accounting.optimizer_laws.view import TensorView, product
from accounting.units import Bytes, ceil_div

Options = Mapping[str, Any]
Extent = Callable[[TensorView, Options], Bytes]

_KRON_LIMIT = 8192
_BLOCK_LIMIT = 8192


def _zero(view: TensorView) -> Bytes:
    return view.elements * 0


def full(view: TensorView, options: Options) -> Bytes:
    """n."""
    return view.elements


def scalar(view: TensorView, options: Options) -> Bytes:
    """1, also for a tensor without elements: a rank with an empty shard still counts its steps."""
    return _zero(view) + 1


def dimensions(view: TensorView, options: Options) -> Bytes:
    """One per dimension."""
    return _zero(view) + view.rank


def factored(view: TensorView, options: Options) -> Bytes:
    """Rows and columns of the last two dimensions, leading ones multiply: n/s[-1] + n/s[-2].

    Written as products, so that an empty shard keeps the factor its other dimension gives it.
    """
    return product(view.dims[:-1]) + product((*view.dims[:-2], view.dims[-1]))


def rows(view: TensorView, options: Options) -> Bytes:
    """s[0]; 1 for a 0-d tensor."""
    return _zero(view) + product(view.dims[:1])


def sides(view: TensorView, options: Options) -> Bytes:
    """Sum of all dimensions."""
    return _zero(view) + sum(view.dims)


def flat_sides(view: TensorView, options: Options) -> Bytes:
    """s[0] + n/s[0]: the tensor as a matrix of its first dimension by the rest."""
    return product(view.dims[:1]) + product(view.dims[1:])


def sliced(view: TensorView, options: Options) -> Bytes:
    """Every k-th element, k = `slice_p`."""
    return ceil_div(view.elements, int(options["slice_p"]))


def history_pairs(options: Options) -> int:
    """Pairs that LBFGS holds: history_size, or inner iterations - 1 where the steps run so far made fewer."""
    run = options["steps"]
    return int(options["history_size"] if run is None else min(options["history_size"], run * options["max_iter"] - 1))


def history(view: TensorView, options: Options) -> Bytes:
    """(2·pairs + 2)·n: differences of steps and of gradients, the direction and the last gradient."""
    return (2 * history_pairs(options) + 2) * view.elements


def queue(view: TensorView, options: Options) -> Bytes:
    """A gradient per step run, up to `keep_num`."""
    run = options["steps"]
    return view.elements * int(options["keep_num"] if run is None else min(options["keep_num"], run))


def smaller_side_squared(view: TensorView, options: Options) -> Bytes:
    """k² of an a × b matrix."""
    return np.minimum(view.dims[0], view.dims[1]) ** 2


def all_squares(view: TensorView, options: Options) -> Bytes:
    """Sum of s² over every dimension."""
    return _zero(view) + sum(size**2 for size in view.dims)


def squares(view: TensorView, options: Options) -> Bytes:
    """Sum of s² over dimensions up to `max_precondition_dim`."""
    limit = options["max_precondition_dim"]
    return _zero(view) + sum(np.where(size <= limit, size**2, 0) for size in view.dims)


def merged_squares(view: TensorView, options: Options) -> Bytes:
    """Sum of s² of the tensor as a matrix of its first dimension by the rest; a side of 1, or a vector, has none."""
    if not view.matrix:
        return _zero(view)
    merged = (product(view.dims[:1]), product(view.dims[1:]))
    return _zero(view) + sum(np.where(size > 1, size**2, 0) for size in merged)


def triangles(view: TensorView, options: Options) -> Bytes:
    """Sum of s(s+1)/2: triangular factors packed as lines."""
    return _zero(view) + sum(size * (size + 1) // 2 for size in view.dims)


def kron_factors(view: TensorView, options: Options) -> Bytes:
    """Sum of s², or of s where a dimension is 1 or above the limit, or the tensor is a vector; 1 for a 0-d tensor."""
    if view.rank == 0:
        return scalar(view, options)
    return _zero(view) + sum(
        np.where(view.matrix & (size > 1) & (size <= _KRON_LIMIT), size**2, size) for size in view.dims
    )


def block_squares(view: TensorView, options: Options) -> Bytes:
    """Scalable Shampoo's statistics: dimensions merged while the product fits `block_size`, then cut into blocks."""
    block = int(options["block_size"])
    shapes = np.stack(np.broadcast_arrays(_zero(view), *view.dims), axis=-1)[..., 1:]
    unique, position = np.unique(shapes.reshape(-1, view.rank), axis=0, return_inverse=True)
    counts = np.array([_block_squares(tuple(map(int, shape)), block) for shape in unique], dtype=np.int64)
    counted: Bytes = counts[np.ravel(position)].reshape(shapes.shape[:-1])
    return counted


def _block_squares(shape: tuple[int, ...], block: int) -> int:
    merged = [1]
    for size in shape:
        if merged[-1] * size > block:
            merged.append(size)
        else:
            merged[-1] *= size
    if len(merged) == 1 or max(merged) > _BLOCK_LIMIT or 0 in shape:
        return 0
    edges = [[*range(0, size, block), size] for size in merged]
    blocks = math.prod(len(edge) - 1 for edge in edges)
    per_dimension = [sum((high - low) ** 2 for low, high in pairwise(edge)) for edge in edges]
    return sum(blocks // (len(edge) - 1) * total for edge, total in zip(edges, per_dimension, strict=True))


def _sides(view: TensorView) -> tuple[Bytes, Bytes]:
    return np.minimum(view.dims[0], view.dims[1]), np.maximum(view.dims[0], view.dims[1])


def projector(view: TensorView, options: Options) -> Bytes:
    """r'·k, r' = min(r, k)."""
    shorter, _ = _sides(view)
    return np.minimum(shorter, options["rank"]) * shorter


def projector_whole(view: TensorView, options: Options) -> Bytes:
    """k²: the kept slice of the singular vectors is a view and pins the whole thin factor."""
    shorter, _ = _sides(view)
    return shorter**2


def low_rank(view: TensorView, options: Options) -> Bytes:
    """r'·max(a, b); the longer side is cut where it is the first, which FSDP2 shards, and whole where it is not."""
    whole = view.gathered
    shorter, _ = _sides(whole)
    longer = np.where(whole.dims[0] >= whole.dims[-1], view.dims[0], view.dims[-1])
    return np.minimum(shorter, options["rank"]) * longer


def low_rank_factored(view: TensorView, options: Options) -> Bytes:
    """r' + max(a, b): rows and columns of the projected matrix."""
    shorter, longer = _sides(view)
    return np.minimum(shorter, options["rank"]) + longer


def random_projector(view: TensorView, options: Options) -> Bytes:
    """r·k, the rank not clipped."""
    shorter, _ = _sides(view)
    return int(options["rank"]) * shorter


def random_low_rank(view: TensorView, options: Options) -> Bytes:
    """r·max(a, b), the rank not clipped."""
    _, longer = _sides(view)
    return int(options["rank"]) * longer


def log_rank(view: TensorView, options: Options) -> Bytes:
    """round(log2 N)·n, N = elements of all tensors of the optimizer (this one's own where the model is unknown)."""
    elements = np.maximum(np.asarray(view.model.elements or view.elements, dtype=np.int64), 1)
    return np.rint(np.log2(elements)).astype(np.int64) * view.elements


_MINI_PER_HEAD = ("k_proj", "q_proj", "wq", "wk", "query", "key")
_MINI_PER_ROW = (
    *("embed", "embd", "wte", "lm_head", "output", "final_layer", "v_proj", "wv", "value"),
    *("feed_forward", "linear", "mlp", "o_proj", "wo", "attn.proj"),
)


def adam_mini(view: TensorView, options: Options) -> Bytes:
    """Adam-mini's second moments by the parameter's NAME, as its code matches them, in its order.

    bias: n; query and key: one per head, n / (hidden²/heads); embedding, head, value, output, MLP: one per row;
    anything else: one per tensor.
    """
    name = view.name.lower()
    if "bias" in name:
        return view.elements
    if any(word in name for word in _MINI_PER_HEAD):
        block = view.model.hidden_size**2 // max(view.model.heads, 1)
        return view.elements // max(block, 1)
    if any(word in name for word in _MINI_PER_ROW):
        return rows(view, options)
    return scalar(view, options)


EXTENTS: Mapping[str, Extent] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            *(
                full,
                scalar,
                dimensions,
                factored,
                rows,
                sides,
                flat_sides,
                sliced,
                history,
                queue,
                smaller_side_squared,
            ),
            *(all_squares, squares, merged_squares, triangles, kron_factors, block_squares),
            *(projector, projector_whole, low_rank, low_rank_factored, random_projector, random_low_rank, log_rank),
            adam_mini,
        )
    }
)
SHAPE_FREE = frozenset({"full", "scalar", "history", "queue", "sliced"})
"""Extents that an element count alone decides."""
