"""One tensor as the optimizer sees it: perhaps a shard, perhaps a flat slice, never the layer it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from accounting.model.tensors import Tensor
from accounting.units import Bytes

_EMBEDDING_ROLES = frozenset({"embedding", "position"})
_HEAD_ROLE = "head"
_MATRIX_RANK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What a few laws ask about the whole model."""

    hidden_size: int = 0
    heads: int = 1
    elements: int = 0
    """Elements of all tensors this optimizer steps."""


@dataclass(frozen=True, kw_only=True)
class TensorView:
    """`dims` are int64 arrays that broadcast together: one entry per candidate, or scalars; () is a 0-d tensor."""

    dims: tuple[Bytes, ...]
    whole: tuple[Bytes, ...] | None = None
    """Dimensions before sharding where the optimizer can gather them (FSDP2); None = `dims`, or lost to flattening."""
    name: str = ""
    role: str = "other"
    zero_initialised: bool = False
    """All zero before the first step (a fresh bias): Prodigy and Nero keep less for it."""
    model: ModelFacts = ModelFacts()

    @classmethod
    def of(
        cls,
        tensor: Tensor,
        dims: tuple[Bytes, ...] | None = None,
        model: ModelFacts | None = None,
        whole: tuple[Bytes, ...] | None = None,
    ) -> TensorView:
        """The whole tensor, or the local `dims` of a shard of it."""
        shape = tuple(np.asarray(size, dtype=np.int64) for size in tensor.shape)
        return cls(
            dims=shape if dims is None else dims,
            whole=whole,
            name=f"{tensor.module}.{tensor.name}" if tensor.module else tensor.name,
            role=tensor.role,
            zero_initialised=tensor.role == "bias" or tensor.name.rpartition(".")[2] == "bias",
            model=model or ModelFacts(),
        )

    @property
    def gathered(self) -> TensorView:
        """The tensor before sharding, where its dimensions are known."""
        return self if self.whole is None else replace(self, dims=self.whole, whole=None)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def matrix(self) -> bool:
        """Two dimensions or more."""
        return self.rank >= _MATRIX_RANK

    @property
    def two_dimensional(self) -> bool:
        """Exactly two dimensions."""
        return self.rank == _MATRIX_RANK

    @cached_property
    def elements(self) -> Bytes:
        """Product of the dimensions; 1 for a 0-d tensor."""
        return product(self.dims)

    @property
    def embedding(self) -> bool:
        """Weight of an embedding module, positions and token types included."""
        return self.role in _EMBEDDING_ROLES

    @property
    def hidden(self) -> bool:
        """A matrix inside the network: 2-D, no embedding, no head."""
        return self.two_dimensional and not self.embedding and self.role != _HEAD_ROLE


def product(dims: tuple[Bytes, ...]) -> Bytes:
    """int64 product of broadcastable dimensions."""
    if not dims:
        return np.asarray(1, dtype=np.int64)
    total = np.asarray(dims[0], dtype=np.int64)
    for size in dims[1:]:
        total = total * np.asarray(size, dtype=np.int64)
    return total
