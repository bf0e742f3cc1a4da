"""What the answers of several candidates share, worked out when the first of them asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.implementation import assumed
from accounting.ledger import Ledger
from accounting.memory.context import Context
from accounting.memory.device import ranges_of
from accounting.memory.outside import (
    checkpoint_bytes,
    host_bytes_per_node,
    host_load_bytes_per_node,
    host_save_bytes_per_node,
    nvme_bytes_per_node,
)
from accounting.memory.ranks import Ranks
from accounting.units import Bytes


@dataclass(frozen=True)
class Shared:
    """Of candidates of one recipe."""

    context: Context
    ledger: Ledger

    @cached_property
    def host(self) -> Bytes:
        """Host memory of a node, (N, 1)."""
        return host_bytes_per_node(self.context, self.ledger)

    @cached_property
    def host_load(self) -> Bytes:
        """While the weights are read."""
        return host_load_bytes_per_node(self.context, self.ledger)

    @cached_property
    def host_save(self) -> Bytes:
        """While a checkpoint is written."""
        return host_save_bytes_per_node(self.context, self.ledger)

    @cached_property
    def nvme(self) -> Bytes:
        """Of a node."""
        return nvme_bytes_per_node(self.context)

    @cached_property
    def checkpoint(self) -> dict[str, int]:
        """Bytes on disk."""
        return dict(zip(("weights", "full"), checkpoint_bytes(self.context), strict=True))

    @cached_property
    def ranges(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Names of likely ranges, and which of them each candidate falls under."""
        return ranges_of(self.context)

    @cached_property
    def ranks(self) -> Ranks:
        """The states of every rank, by layout."""
        return Ranks(self.context)

    @cached_property
    def assumed(self) -> tuple[str, ...]:
        """What is taken to run where the request does not say."""
        return tuple(assumed(self.context.recipe))
