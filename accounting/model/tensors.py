"""A model as the tensors it holds: the one inventory behind counts, states, shards and FLOPs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """`count` identical parameter tensors of one place in the model.

    `shape` is the library's own order (a Linear weight is [out, in]); `tensor_parallel_dim` the dimension that tensor
    parallelism cuts, None where every rank holds it whole.
    """

    name: str
    shape: tuple[int, ...]
    count: int = 1
    role: str = "other"
    """`embedding`, `position`, `attention`, `mlp`, `router`, `expert`, `norm`, `bias`, `head`, `other`."""
    module: str = ""
    """Logical matrix in Llama's words (`q_proj`, `o_proj`, `gate_proj`, `up_proj`, `down_proj`, `embed_tokens`,
    `lm_head`) whichever way the class fuses or renames it: what an adapter targets."""
    linear: bool = False
    """Weight of a linear layer inside a block (or the head): quantisable, a target of `all-linear`."""
    tensor_parallel_dim: int | None = None
    trainable: bool = True

    @property
    def expert(self) -> bool:
        """True where expert parallelism spreads the copies."""
        return self.role == "expert"

    @property
    def elements(self) -> int:
        """Elements of one copy."""
        return prod(self.shape)

    @property
    def parameters(self) -> int:
        """Elements of all copies."""
        return self.elements * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Blocks that look alike: dense, mixture, encoder …"""

    name: str
    tensors: tuple[Tensor, ...]
    mixture: bool = False
    encoder: bool = False
    window: int | None = None

    @property
    def parameters(self) -> int:
        return sum(tensor.parameters for tensor in self.tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All parameters of a model: what stands before the blocks, the blocks in order, what stands after them.

    `first` holds the embeddings, `last` the final norm and the head (no head weight where it is tied).
    `pattern` names the kind of each block, in pipeline order. A bare tensor list is all `first`.
    """

    first: tuple[Tensor, ...] = ()
    last: tuple[Tensor, ...] = ()
    kinds: tuple[LayerKind, ...] = ()
    pattern: tuple[int, ...] = ()

    def all_tensors(self) -> tuple[tuple[Tensor, int], ...]:
        """(tensor, how often it stands in the model), each kind's tensors once with its number of blocks."""
        blocks = [
            (tensor, self.pattern.count(index)) for index, kind in enumerate(self.kinds) for tensor in kind.tensors
        ]
        return tuple([(tensor, 1) for tensor in (*self.first, *self.last)] + blocks)

    @property
    def parameters(self) -> int:
        return sum(tensor.parameters * times for tensor, times in self.all_tensors())

    @property
    def trainable_parameters(self) -> int:
        return sum(tensor.parameters * times for tensor, times in self.all_tensors() if tensor.trainable)
