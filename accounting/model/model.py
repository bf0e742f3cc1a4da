"""A model as every other part sees it: its tensors, or a bare count, and how it was come by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accounting.model.architecture import Architecture
from accounting.model.errors import ConfigError
from accounting.model.fields import read_architecture
from accounting.model.huggingface import read_config
from accounting.model.inventory import inventory_of
from accounting.model.reader import MAX_PARAMETERS, MISSING, Reader
from accounting.model.tensor_list import inventory_of_tensors
from accounting.model.tensors import Inventory

_EMBEDDING_ROLES = ("embedding", "position", "head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """`architecture` is None for tensors and counts, `inventory` for a bare count, `bare_parameters` for all else."""

    slug: str | None = None
    architecture: Architecture | None = None
    inventory: Inventory | None = None
    bare_parameters: int | None = None
    warnings: tuple[str, ...] = ()
    source: str = "config"
    """`config`, `architecture`, `tensors` or `count`."""

    @property
    def parameters(self) -> int:
        """All parameters, tied weights once."""
        return self.inventory.parameters if self.inventory is not None else self.bare_parameters or 0

    @property
    def trainable_parameters(self) -> int:
        """Parameters that get a gradient where no adapter freezes them; a bare count is all trainable."""
        return self.inventory.trainable_parameters if self.inventory is not None else self.bare_parameters or 0

    @property
    def active_parameters(self) -> int | None:
        """Parameters one token passes through: of a mixture's experts only `top_k`; both embeddings count.

        None for tensors and counts, whose experts nobody named.
        """
        if self.architecture is None or self.inventory is None:
            return None
        moe = self.architecture.moe
        experts = sum(tensor.parameters * times for tensor, times in self.inventory.all_tensors() if tensor.expert)
        active = 0 if moe is None else experts * moe.top_k // moe.experts
        return self.inventory.parameters - experts + active

    @property
    def embedding_parameters(self) -> int | None:
        """Embeddings of words, positions and token types, and the head; None for tensors and counts."""
        if self.architecture is None or self.inventory is None:
            return None
        held = self.inventory.all_tensors()
        return sum(tensor.parameters * times for tensor, times in held if tensor.role in _EMBEDDING_ROLES)


def model_from_config(config: Mapping[str, Any], *, slug: str | None = None) -> Model:
    """A model from a Hugging Face config.json; raises ConfigError."""
    reading = read_config(config)
    return _from_architecture(reading.architecture, reading.warnings, "config", slug)


def model_from_architecture(fields: Mapping[str, Any], *, slug: str | None = None) -> Model:
    """A model from the contract's `architecture` fields; raises ConfigError."""
    reading = read_architecture(fields)
    return _from_architecture(reading.architecture, reading.warnings, "architecture", slug)


def model_from_tensors(tensors: Sequence[Mapping[str, Any]], *, slug: str | None = None) -> Model:
    """A model from its bare tensors; raises ConfigError. Activations and time cannot be known."""
    return Model(slug=slug, inventory=inventory_of_tensors(tensors), source="tensors")


def model_from_count(parameters: int, *, slug: str | None = None) -> Model:
    """A model from a count alone; raises ConfigError (pointer "") where it is not a positive whole number."""
    reader = Reader({"parameters": parameters})
    count = reader.integer(("parameters",), high=MAX_PARAMETERS)
    if count is MISSING:
        raise ConfigError(fault._replace(pointer="") for fault in reader.faults)
    return Model(slug=slug, bare_parameters=count, source="count")


def _from_architecture(architecture: Architecture, warnings: tuple[str, ...], source: str, slug: str | None) -> Model:
    inventory = inventory_of(architecture)
    return Model(slug=slug, architecture=architecture, inventory=inventory, warnings=warnings, source=source)
