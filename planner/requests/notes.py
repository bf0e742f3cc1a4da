"""What is noted while a request is read: its faults, the defaults taken, and what its author should know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from planner.requests.fields import Faults


def _once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


@dataclass(slots=True)
class Notes:
    faults: Faults = field(default_factory=Faults)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def assume(self, text: str) -> None:
        _once(self.assumptions, text)

    def warn(self, text: str) -> None:
        _once(self.warnings, text)

    def add_faults(self, prefix: str, found: Iterable[tuple[str, str, str]]) -> None:
        """Faults of a part, read on its own: each pointer stands below `prefix`."""
        for pointer, code, detail in found:
            self.faults.add(f"{prefix}{pointer}", code, detail)
