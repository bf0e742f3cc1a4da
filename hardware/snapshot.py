"""Database rows → accounting.Catalog: the only bridge down, read once for each revision."""

from __future__ import annotations

from functools import lru_cache

from accounting.catalog import Catalog
from hardware import records
from hardware.columns import TABLES, Row
from hardware.models import Accelerator, CatalogRevision, Interconnect, NodeType, Offer
from hardware.models.catalog_row import CatalogRow

MODELS: dict[str, type[CatalogRow]] = {
    "accelerators": Accelerator,
    "nodes": NodeType,
    "interconnects": Interconnect,
    "offers": Offer,
}


def stored_rows() -> dict[str, list[Row]]:
    """Every row in use, as plain values, in the order of the files."""
    rows: dict[str, list[Row]] = {}
    for table in TABLES:
        attributes = (*table.attributes, "slug") if table.slug else table.attributes
        rows[table.name] = list(MODELS[table.name]._default_manager.filter(retired=False).values(*attributes))
    return rows


def catalog_snapshot() -> Catalog:
    """The catalog at the current revision; the same object until the revision moves."""
    while True:
        revision = CatalogRevision.objects.first()
        if revision is None:
            return records.catalog_of_rows(stored_rows(), revision=0)
        catalog = _read(revision.number, revision.content_hash)
        if catalog.content_hash == revision.content_hash:
            return catalog
        # Somebody changed the catalog between the two reads: rows and number belong together, so read again.
        _read.cache_clear()


@lru_cache(maxsize=2)
def _read(number: int, content_hash: str) -> Catalog:
    return records.catalog_of_rows(stored_rows(), revision=number)
