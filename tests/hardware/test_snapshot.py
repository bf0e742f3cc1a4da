"""The bridge down: the same catalog from files and database, one object for each revision, units of the core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accounting.catalog import Catalog
from accounting.units import GIB
from hardware.columns import Row
from hardware.loader import catalog_from_csv, catalog_load
from hardware.models import Accelerator, Offer
from hardware.records import catalog_of_rows
from hardware.revision import catalog_changed, current_revision
from hardware.snapshot import catalog_snapshot

FROM_FILES = catalog_from_csv()


def test_database_and_files_give_the_same_catalog(loaded: None) -> None:
    snapshot = catalog_snapshot()
    assert snapshot.revision == current_revision()
    assert replace(snapshot, revision=0) == FROM_FILES
    assert list(snapshot.accelerators) == sorted(snapshot.accelerators)


def test_order_of_the_rows_does_not_matter(shipped: dict[str, list[Row]]) -> None:
    backwards = {name: rows[::-1] for name, rows in shipped.items()}
    assert catalog_of_rows(backwards, revision=0) == FROM_FILES


def test_one_revision_is_read_once(loaded: None, django_assert_num_queries: pytest.FixtureRequest) -> None:
    first = catalog_snapshot()
    with django_assert_num_queries(1):  # type: ignore[operator]  # a context manager of pytest-django
        assert catalog_snapshot() is first


def test_empty_database_is_an_empty_catalog(db: None) -> None:
    assert catalog_snapshot().accelerators == {}
    catalog_load()
    assert len(catalog_snapshot().accelerators) == 81


def test_changed_price_shows_after_its_revision(loaded: None) -> None:
    before = catalog_snapshot()
    offer = Offer.objects.get(provider="aws", instance_name="p5.48xlarge", pricing_kind="on-demand")
    offer.usd_per_hour = 1
    offer.price_confirmed = True
    offer.save()
    catalog_changed("test")
    after = catalog_snapshot()
    assert after.revision == before.revision + 1
    assert after.content_hash != before.content_hash
    assert price(before) > 1
    assert price(after) == 1


def price(catalog: Catalog) -> float:
    return next(
        offer.usd_per_hour
        for offer in catalog.offers
        if (offer.provider, offer.instance, offer.pricing_kind) == ("aws", "p5.48xlarge", "on-demand")
    )


def test_retired_device_goes_with_its_machines_and_prices(loaded: None) -> None:
    Accelerator.objects.filter(slug="h100-sxm5-80gb").update(retired=True)
    catalog_changed("test")
    catalog = catalog_snapshot()
    assert "h100-sxm5-80gb" not in catalog.accelerators
    assert "aws-p5-48xlarge" not in catalog.node_types
    assert not catalog.offers_of("h100-sxm5-80gb")


def test_units_of_the_core() -> None:
    device = FROM_FILES.accelerators["h100-sxm5-80gb"]
    node = FROM_FILES.node_types["aws-p5-48xlarge"]
    assert device.memory_bytes == 85_520_809_984
    assert device.memory_bandwidth_bytes_per_second == 3350e9
    assert device.scaleup_bytes_per_second == 450e9
    assert device.default_node == "aws-p5-48xlarge"
    assert node.host_memory_bytes == 2048 * GIB
    assert node.inter_bytes_per_second_total == 400e9
    assert node.inter_bytes_per_second_per_accelerator == 50e9
    assert FROM_FILES.interconnects["infiniband-edr-100"].latency_seconds_low == 0.5e-6


def test_only_the_newest_price_of_an_item_counts() -> None:
    nebius = [
        offer
        for offer in FROM_FILES.offers_of("h100-sxm5-80gb")
        if offer.provider == "nebius" and offer.region == "all" and offer.pricing_kind == "on-demand"
    ]
    assert [(offer.date_precision, str(offer.price_date)) for offer in nebius] == [("exact", "2026-10-01")]
    assert len(FROM_FILES.offers) == 400
