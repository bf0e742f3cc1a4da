"""Changes that say which state they change: entity tags and If-Match (RFC 9110 §13.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from planner.errors import PreconditionFailed, PreconditionRequired

MAX_HEADER = 1_000


class Versioned(Protocol):
    pk: int
    version: int


def entity_tag(row: Versioned) -> str:
    """A strong tag: the row's key and how often it was changed."""
    return f'"{row.pk}-{row.version}"'


@dataclass(frozen=True, slots=True)
class IfMatch:
    """The header of a change; asked again under the row's lock, so that of two changes at once one is refused."""

    header: str | None

    def check(self, row: Versioned) -> None:
        """Raises PreconditionRequired without the header, PreconditionFailed where the row has another tag."""
        if not self.header:
            raise PreconditionRequired("send If-Match with the ETag that a GET of this row gave you")
        tags = [tag.strip() for tag in self.header[:MAX_HEADER].split(",")]
        if "*" not in tags and entity_tag(row) not in tags:
            raise PreconditionFailed("the row was changed since you read it; read it again and decide anew")

    def check_if_sent(self, row: Versioned) -> None:
        """The same for a change that may be made without having read: raises PreconditionFailed only."""
        if self.header is not None:
            self.check(row)


UNSEEN = IfMatch(None)
"""Of a change that names no state."""
