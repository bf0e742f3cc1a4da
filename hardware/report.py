"""What a load changed, for people: counts, and every value that differs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TableReport:
    """One kind of row. `changed` lines say which value was what."""

    name: str
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    kept_edited: list[str] = field(default_factory=list)
    not_in_file: list[str] = field(default_factory=list)
    unchanged: int = 0

    @property
    def writes(self) -> int:
        return len(self.added) + len(self.changed)

    def lines(self) -> list[str]:
        """One line of counts, then a line for each row that was changed, kept or left alone."""
        counts = (
            f"{self.name}: {len(self.added)} added, {len(self.changed)} changed, {self.unchanged} unchanged, "
            f"{len(self.kept_edited)} kept as edited here, {len(self.not_in_file)} not in the file"
        )
        return [
            counts,
            *(f"  changed {line}" for line in self.changed),
            *(f"  kept    {line}" for line in self.kept_edited),
            *(f"  only in the database: {line}" for line in self.not_in_file),
        ]
