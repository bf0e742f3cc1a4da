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
    parts: tuple[tuple[str, int], ...] = ()
    """A fused matrix's logical matrices as (word, output width), in order; `module` then joins the words with `+`."""
    input_dim: int = 1
    """The dimension of `shape` a linear layer contracts: 1 of [out, in], 0 of GPT-2's Conv1D [in, out]."""
    linear: bool = False
    """Weight of a linear layer inside a block (or the head): a matrix product, a target of `all-linear`."""
    tensor_parallel_dim: int | None = None
    trainable: bool = True
    adapter: bool = False
    """Added by an adapter: its own matrices and the trainable copies of `modules_to_save`."""

    @property
    def words(self) -> tuple[str, ...]:
        """The logical matrices this tensor holds, in Llama's words."""
        return tuple(word for word, _ in self.parts) if self.parts else ((self.module,) if self.module else ())

    @property
    def quantisable(self) -> bool:
        """Whether a quantised base stores this weight in its low-bit type; loaders leave the head alone."""
        return self.linear and self.role != "head" and not self.adapter

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
    attention: str = "full"
    """`full`, `sliding` or `linear`."""

    @property
    def parameters(self) -> int:
        """Elements of all tensors, copies counted."""
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
        """Elements of all tensors, copies counted."""
        return sum(tensor.parameters * times for tensor, times in self.all_tensors())

    @property
    def trainable_parameters(self) -> int:
        """Elements that get a gradient."""
        return sum(tensor.parameters * times for tensor, times in self.all_tensors() if tensor.trainable)
