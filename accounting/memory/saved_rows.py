"""One row of what autograd keeps of a block, and what the tables of rows read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from accounting.facts.families import FUSED, Habits, habits_of
from accounting.memory.numerics import Numerics
from accounting.model.architecture import Architecture
from accounting.model.tensors import LayerKind
from accounting.options import Options
from accounting.units import Bytes
from accounting.vocabulary import Attention


class Split(StrEnum):
    """How tensor parallelism divides a saved tensor."""

    SEQUENCE = "sequence"
    """By tp under sequence parallelism, else whole on every rank."""
    GATHERED = "gathered"
    """Input of a column-parallel matrix: whole under torch's sequence parallelism, the shard under Megatron's."""
    TENSOR = "tensor"
    KV = "kv"
    """Key and value heads: by at most the number of KV heads."""
    EXPERT = "expert"
    """By expert tensor parallelism."""
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved tensor: bytes per token, or per routed token where `routed`."""

    module: str
    name: str
    per_token: int | Bytes
    split: Split
    fixed: int | Bytes = 0
    """Bytes a micro-batch holds whatever its tokens."""
    routed: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Everything the rows of one block read."""

    architecture: Architecture
    kind: LayerKind
    numerics: Numerics
    attention: Attention
    options: Options
    sequence: Bytes
    """Keys a query sees: the whole sequence, (N, 1)."""
    micro_batch: Bytes
    dropout: float
    """On the residual stream."""
    score_dropout: float
    """On the attention's softmax."""
    adapter: AdapterRows | None = None
    """Set where the base is frozen: other rows then."""
    whole_base: bool = True
    """The weights are stored in fp32 or train; False over a frozen 16-bit or quantised base."""

    @property
    def habits(self) -> Habits:
        """What the family's own module does; fused kernels do nothing of the kind."""
        return FUSED if self.numerics.fused else habits_of(self.architecture.family)

    @property
    def column(self) -> int:
        """Which of (16 bit, autocast, fp32) a row of bytes by format is read at."""
        return 2 if self.numerics.compute == 4 else 1 if self.numerics.autocast else 0


@dataclass(frozen=True, slots=True)
class AdapterRows:
    targets: frozenset[str]
    """Logical matrices that carry an adapter."""
    rank: int
    itemsize: int
    """Bytes of an adapter element."""
    quantised: bool = False
    """The base is stored in fewer than 16 bits: its products are bitsandbytes' own."""


def norm_rows(block: Block, width: int, module: str, name: str) -> Saved:
    """A normalisation: its input and statistics; the Hugging Face RMSNorm also keeps fp32 and normalised copies."""
    numerics, architecture, habits = block.numerics, block.architecture, block.habits
    stream = numerics.residual
    if architecture.norm == "layernorm":
        return Saved(module, name, stream * width + 8, Split.SEQUENCE)
    if numerics.fused_norm:
        return Saved(module, name, stream * width + 4, Split.SEQUENCE)
    fixed = 4 * width if habits.norm_weight_from_one else 0
    return Saved(module, name, (8 if habits.norm_keeps_fp32 else 4 + stream) * width + 4, Split.SEQUENCE, fixed=fixed)
