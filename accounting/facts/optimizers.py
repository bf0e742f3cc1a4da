"""The optimizer registry: every row, its names, and looking one up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from accounting.facts.optimizers_packages import PACKAGE_ROWS
from accounting.facts.optimizers_quantised import QUANTISED_ROWS
from accounting.facts.optimizers_rows import Alias, Constant, Optimizer, Option, OptionValue, Slot, Temporary
from accounting.facts.optimizers_structured import STRUCTURED_ROWS
from accounting.facts.optimizers_sweep import SWEEP_ROWS
from accounting.facts.optimizers_torch import TORCH_ROWS
from accounting.facts.refusals import refusals_of
from accounting.naming import nearest_names

__all__ = [
    "ALIASES",
    "OPTIMIZERS",
    "Alias",
    "Constant",
    "Optimizer",
    "Option",
    "OptionValue",
    "Slot",
    "Temporary",
    "UnknownOptimizerError",
    "describe",
    "find_alias",
    "find_optimizer",
]

OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType(
    {row.name: row for row in (*TORCH_ROWS, *QUANTISED_ROWS, *PACKAGE_ROWS, *STRUCTURED_ROWS, *SWEEP_ROWS)}
)
"""Rows by contract name, libraries in order of use."""

_EMBEDDINGS = MappingProxyType({"embeddings_32bit": True})
_TRAINER = (
    Alias(name="adamw-bnb-8bit", optimizer="adamw-8bit", options=_EMBEDDINGS),
    Alias(name="adamw-torch-8bit", optimizer="adamw-8bit-torchao"),
    Alias(name="adamw-torch-4bit", optimizer="adamw-4bit", options=MappingProxyType({"block_size": 256})),
    Alias(name="rmsprop-bnb-8bit", optimizer="rmsprop-8bit", options=_EMBEDDINGS),
    Alias(name="rmsprop-bnb", optimizer="rmsprop-bitsandbytes"),
)
"""transformers.TrainingArguments(optim=...) names that no row carries already."""


def _alias_table() -> dict[str, Alias]:
    table = {alias.name: alias for alias in _TRAINER}
    for row in OPTIMIZERS.values():
        for name in row.aliases:
            table[name] = Alias(name=name, optimizer=row.name)
    return table


ALIASES: Mapping[str, Alias] = MappingProxyType(_alias_table())


class UnknownOptimizerError(LookupError):
    """No row and no alias of that name; `nearest` lists what was probably meant."""

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = nearest
        hint = f"; nearest: {', '.join(nearest)}" if nearest else "; see the list of optimizers"
        super().__init__(f"optimizer {name!r} is not known{hint}")


def find_alias(name: str) -> Alias:
    """The row a name stands for and the options it implies; case, `_` and spaces do not matter.

    Raises UnknownOptimizerError with the nearest names.
    """
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    if wanted in OPTIMIZERS:
        return Alias(name=wanted, optimizer=wanted)
    if wanted in ALIASES:
        return ALIASES[wanted]
    raise UnknownOptimizerError(name, nearest_names(wanted, (*OPTIMIZERS, *ALIASES)))


def find_optimizer(name: str) -> Optimizer:
    """The registry row of a name or alias. An alias may imply options: `find_alias` gives both.

    Raises UnknownOptimizerError with the nearest names.
    """
    return OPTIMIZERS[find_alias(name).optimizer]


def describe(optimizer: Optimizer) -> dict[str, Any]:
    """The row as plain JSON values, for the API and the reference page."""
    plain: dict[str, Any] = asdict(optimizer)
    plain["aliases"] = sorted(alias.name for alias in ALIASES.values() if alias.optimizer == optimizer.name)
    plain["stops_under"] = [
        {"engine": row.engine.value, "words": row.words, "because": row.because} for row in refusals_of(optimizer.name)
    ]
    return plain
