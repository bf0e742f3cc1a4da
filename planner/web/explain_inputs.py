"""What a bucket of the ledger depends on: each input with its value and where that value came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accounting.scenario import Scenario
from planner.web import format as text
from planner.web import words
from planner.web.words import Json


@dataclass(frozen=True)
class Input:
    """One row of the symbol table; `source` says who gave the value."""

    symbol: str
    meaning: str
    value: str
    source: str


@dataclass(frozen=True)
class Known:
    """What the inputs are read from: the request, the model as it was read, and who wrote the request."""

    request: Json
    scenario: Scenario
    asked_by: str

    def member(self, pointer: str) -> Any:
        """A member of the request; None where it was left out."""
        inside: Any = self.request
        for name in pointer.split("/"):
            inside = inside.get(name) if isinstance(inside, Mapping) else None
        return inside

    def source_of(self, pointer: str) -> str:
        """Whether the request gives a member, or its default was used."""
        return "default" if self.member(pointer) is None else self.asked_by

    @property
    def model_source(self) -> str:
        """Where the model's own numbers come from."""
        slug = self.scenario.recipe.model.slug
        return slug or {"config": "config.json", "count": "request"}.get(self.scenario.recipe.model.source, "request")


def _shape(symbol: str, meaning: str, attribute: str) -> Callable[[Known], Input | None]:
    """A number of the architecture."""

    def read(known: Known) -> Input | None:
        value = getattr(known.scenario.recipe.model.architecture, attribute, None)
        return None if value is None else Input(symbol, meaning, f"{value:,}", known.model_source)

    return read


def _degree(symbol: str, meaning: str) -> Callable[[Known], Input | None]:
    """A degree of the layout, as it was completed."""

    def read(known: Known) -> Input | None:
        value = int(getattr(known.scenario.layout, symbol)[0, 0])
        return Input(symbol, meaning, f"{value:,}", known.source_of(f"parallelism/{symbol}"))

    return read


def _batch(symbol: str, meaning: str, name: str) -> Callable[[Known], Input | None]:
    def read(known: Known) -> Input | None:
        value = known.member(f"batch/{name}")
        return Input(symbol, meaning, f"{value:,}", known.asked_by) if isinstance(value, int) else None

    return read


def _choice(symbol: str, meaning: str, pointer: str, say: Callable[[Any], str]) -> Callable[[Known], Input | None]:
    def read(known: Known) -> Input | None:
        value = say(known.member(pointer))
        return Input(symbol, meaning, value or "default", known.source_of(pointer)) if value else None

    return read


def _parameters(known: Known) -> Input | None:
    return Input("P", "parameters", text.count(known.scenario.recipe.model.parameters), known.model_source)


def _trainable(known: Known) -> Input | None:
    return Input("T", "trainable parameters", text.count(known.scenario.recipe.inventory.trainable_parameters),
                 "adapter" if known.member("adapter") else known.model_source)  # fmt: skip


def _bytes_of(part: str, meaning: str) -> Callable[[Known], Input | None]:
    def read(known: Known) -> Input | None:
        dtype = getattr(known.scenario.recipe.precision, part)
        return None if dtype is None else Input("dtype", meaning, str(dtype), known.source_of("precision"))

    return read


INPUTS: Mapping[str, Callable[[Known], Input | None]] = {
    "P": _parameters,
    "T": _trainable,
    "parameter_dtype": _bytes_of("parameters", "dtype of the weights at rest"),
    "gradient_dtype": _bytes_of("gradients", "dtype of the gradients"),
    "master_dtype": _bytes_of("master_weights", "dtype of the master weights"),
    "h": _shape("h", "hidden size", "hidden_size"),
    "a": _shape("a", "attention heads", "heads"),
    "kv": _shape("kv", "key and value heads", "kv_heads"),
    "f": _shape("f", "MLP width", "ffn_size"),
    "L": _shape("L", "layers of the model", "layers"),
    "V": _shape("V", "words of the vocabulary", "vocab_size"),
    "s": _batch("s", "sequence, tokens", "sequence_length"),
    "b": _batch("b", "micro-batch, sequences per GPU", "micro_batch_size"),
    "dp_shard": _degree("dp_shard", "GPUs that share one copy of the states"),
    "dp_replicate": _degree("dp_replicate", "copies"),
    "tp": _degree("tp", "tensor parallel"),
    "cp": _degree("cp", "context parallel"),
    "pp": _degree("pp", "pipeline stages"),
    "ep": _degree("ep", "expert parallel"),
    "engine": _choice("engine", "engine", "sharding/engine", lambda value: words.name(value) if value else ""),
    "zero": _choice("zero", "ZeRO stage", "sharding/zero_stage", lambda value: "" if value is None else str(value)),
    "optimizer": _choice("optimizer", "optimizer", "optimizer", words.optimizer_name),
    "precision": _choice("precision", "precision", "precision", words.precision_name),
    "recompute": _choice("recompute", "recompute", "recompute", words.recompute_name),
    "attention": _choice("attention", "attention", "attention", lambda value: str(value or "")),
    "loss": _choice("loss", "loss kernel", "options/loss", lambda value: str(value or "standard")),
}
"""Every input by name: how its row is read."""

DEPENDS_ON: Mapping[str, str] = {
    "parameters": "P T parameter_dtype zero dp_shard tp pp ep engine",
    "gradients": "T gradient_dtype zero dp_shard tp pp engine",
    "master_weights": "T master_dtype zero dp_shard tp pp precision",
    "optimizer_states": "T optimizer zero dp_shard tp pp engine",
    "activations": "h a kv f L s b tp cp pp recompute attention",
    "logits_and_loss": "V h s b tp loss precision",
    "communication_buffers": "P h L engine zero dp_shard tp pp precision",
    "temporaries": "T optimizer dp_shard tp engine",
    "framework": "engine precision",
    "slack": "P s b engine",
    "context": "engine dp_shard tp pp",
    "step": "P h L V s b tp cp pp dp_shard dp_replicate engine recompute attention precision",
}
"""Names of the inputs of each subject."""


def inputs_of(subject: str, known: Known) -> tuple[Input, ...]:
    """The symbol table of one subject, unknown inputs left out."""
    read = (INPUTS[name](known) for name in DEPENDS_ON[subject].split())
    return tuple(row for row in read if row is not None)
