"""What is wrong with a description of a model, all faults at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Fault(NamedTuple):
    """One fault: where (JSON pointer below the description), what kind, and a sentence naming the value and the fix."""

    pointer: str
    code: str
    detail: str

    def below(self, prefix: str) -> Fault:
        """The same fault seen from a document that holds the description at `prefix`."""
        return self._replace(pointer=prefix + self.pointer)


class ConfigError(ValueError):
    """A config.json, an architecture, a list of tensors or an adapter that cannot be read; `faults` holds them all."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.pointer or '/'}: {fault.detail}" for fault in self.faults))


def pointer_token(key: str) -> str:
    """A key as one reference token of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
