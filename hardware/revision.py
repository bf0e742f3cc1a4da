"""The catalog's revision: one more after every change, whoever made it."""

from __future__ import annotations

from hardware.models import CatalogRevision
from hardware.records import content_hash
from hardware.snapshot import stored_rows


def catalog_changed(cause: str) -> CatalogRevision:
    """Records a change just written; call it in the transaction of the change."""
    return CatalogRevision.objects.create(content_hash=content_hash(stored_rows()), cause=cause[:200])


def current_revision() -> int:
    """The number of the catalog in use, 0 before it was first loaded."""
    revision = CatalogRevision.objects.first()
    return revision.number if revision else 0
