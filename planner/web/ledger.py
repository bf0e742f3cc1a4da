"""The memory of one estimate as the rows of the ledger: letters, bytes, how each comes about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.web.format import exact_bytes, gib_number, memory, share
from planner.web.words import BUCKETS, Json


@dataclass(frozen=True)
class LedgerRow:
    """One bucket. `tone` is the number of its colour class, 0 for the hatched rows outside the allocator."""

    letter: str
    name: str
    slug: str
    size: int
    of_card: str
    how: str
    tone: int

    @property
    def gib(self) -> str:
        """The size as the ledger prints it."""
        return gib_number(self.size)

    @property
    def exact(self) -> str:
        """The exact bytes, for the title."""
        return exact_bytes(self.size)


@dataclass(frozen=True)
class Ledger:
    """Everything on the card at the peak: the rows sum to `allocated`, with slack and context to `device`, in bytes."""

    rows: tuple[LedgerRow, ...]
    outside: tuple[LedgerRow, ...]
    allocated: int
    device: int
    allocated_share: str
    device_share: str

    @property
    def allocated_gib(self) -> str:
        """Peak allocated in GiB."""
        return gib_number(self.allocated)

    @property
    def device_gib(self) -> str:
        """Device total in GiB."""
        return gib_number(self.device)

    @property
    def allocated_exact(self) -> str:
        """Peak allocated in bytes, for the title."""
        return exact_bytes(self.allocated)

    @property
    def device_exact(self) -> str:
        """Device total in bytes, for the title."""
        return exact_bytes(self.device)


@dataclass(frozen=True)
class Fact:
    """One line of a definition list."""

    name: str
    value: str
    title: str = ""
    subject: str = ""
    """What explains the value; empty where it explains itself."""


def read_ledger(answer_memory: Json) -> Ledger:
    """The ledger of an estimate answer's `memory`. Rows of zero bytes are left out; their letter stays reserved."""
    card = answer_memory.get("capacity_bytes")
    lines = answer_memory.get("lines") or []
    phase = str(answer_memory.get("peak_phase"))
    buckets = answer_memory.get("by_bucket") or {}
    rows = tuple(
        LedgerRow(letter, title, slug, buckets[slug], share(buckets[slug], card), _how(lines, slug, phase), tone)
        for tone, (slug, letter, title) in enumerate(BUCKETS, start=1)
        if buckets.get(slug)
    )
    allocated = answer_memory["peak_allocated_bytes"]
    reserved = answer_memory.get("peak_reserved_bytes", allocated)
    device = answer_memory.get("device_bytes", reserved)
    slack, context = reserved - allocated, device - reserved
    outside = (
        LedgerRow("J", "Allocator slack", "slack", slack, share(slack, card), "cached blocks, not in use", 0),
        LedgerRow("K", "Context and NCCL", "context", context, share(context, card), "outside the allocator", 0),
    )
    return Ledger(
        rows,
        tuple(row for row in outside if row.size),
        allocated,
        device,
        share(allocated, card),
        share(device, card),
    )


def _how(lines: Sequence[Json], bucket: str, phase: str) -> str:
    """How the largest line of a bucket at the peak comes about: its type, its divisor, its words."""
    here = [line for line in lines if line.get("bucket") == bucket and line.get("device", True)]
    if not here:
        return ""
    largest = max(here, key=lambda line: _size(line, phase))
    parts = [str(largest["how"])] if largest.get("how") else _in_words(largest)
    more = len([line for line in here if line is not largest and _size(line, phase)])
    if more:
        parts.append(f"and {more} more line{'' if more == 1 else 's'}")
    return " \u00b7 ".join(parts)


def _in_words(line: Json) -> list[str]:
    """A line without a count of its own: its type, its divisor, its rule."""
    kind = [str(line["dtype"])] if line.get("dtype") else []
    if (line.get("divisor") or 1) > 1:
        kind.append(f"\u00f7 {line['divisor']:,}")
    parts = [" ".join(kind)] if kind else []
    return parts + ([str(line["note"]).rstrip(".")] if line.get("note") else [])


def _size(line: Json, phase: str) -> int:
    size: int = (line.get("bytes_by_phase") or {}).get(phase, 0)
    return size


def outside_the_card(answer_memory: Json) -> tuple[Fact, ...]:
    """Host memory, NVMe and checkpoint sizes, each with its scope."""
    checkpoint = answer_memory.get("checkpoint_bytes") or {}
    sizes = (
        ("Host RAM per node, load", answer_memory.get("host_load_bytes_per_node"), "host-load"),
        ("Host RAM per node, run", answer_memory.get("host_bytes_per_node"), "host-run"),
        ("NVMe per node", answer_memory.get("nvme_bytes_per_node"), ""),
        ("Checkpoint, weights only", checkpoint.get("weights"), "checkpoint-weights"),
        ("Checkpoint, full", checkpoint.get("full"), "checkpoint-full"),
    )
    return tuple(Fact(name, memory(size), exact_bytes(size), subject) for name, size, subject in sizes if size)
