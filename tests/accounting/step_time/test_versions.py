"""Sets of constants as versions: named apart, dated where they moved, inherited where nothing was measured."""

from __future__ import annotations

from dataclasses import fields, replace

from accounting.facts.calibration import CALIBRATION, Calibration
from accounting.facts.calibration_types import UNMEASURED
from accounting.step_time.fit import Free, value_of, with_values
from accounting.step_time.versions import inherited, moved, moved_table, next_version, stamped
from hardware.records import catalog_from_csv

GEMM = Free(table="devices", row="hopper", field="gemm_efficiency")
FABRIC = Free(table="fabric", row="fabric", field="fraction")


def changed(*pairs: tuple[Free, float]) -> Calibration:
    return with_values(CALIBRATION, [free for free, _ in pairs], [value for _, value in pairs])


def test_the_next_version_is_the_one_after_the_days_last() -> None:
    assert next_version("2026-12-01", {"2026-11-30.5"}) == "2026-12-01.1"
    assert next_version("2026-12-01", {"2026-12-01.1", "2026-12-01.9", "2026-12-01.old", "else"}) == "2026-12-01.10"


def test_what_moved_is_listed_and_nothing_else() -> None:
    now = value_of(CALIBRATION, GEMM)
    found = moved(CALIBRATION, changed((GEMM, 1.1 * now), (FABRIC, 0.5)))
    assert [(row.row, row.field) for row in found] == [("devices hopper", "gemm_efficiency"), ("fabric", "fraction")]
    text = moved_table(found)
    assert "+10.0%" in text.splitlines()[0]
    assert "0.5" in text.splitlines()[1]
    # Less than four digits show is not written either.
    assert moved_table(moved(CALIBRATION, changed((GEMM, now * 1.0001)))) == "no constant moved"


def test_a_family_without_measurements_follows_the_one_it_is_like() -> None:
    followers = {name: row for name, row in CALIBRATION.devices.items() if row.like}
    assert "hopper-large" in followers
    found = inherited(CALIBRATION, changed((GEMM, 0.5)))
    assert found.devices["hopper-large"].gemm_efficiency == 0.5
    # Its own attention kernels stay its own.
    own, model = CALIBRATION.devices["hopper-large"], CALIBRATION.devices["hopper"]
    assert found.devices["hopper-large"].attention_forward == own.attention_forward != model.attention_forward
    for row in followers.values():
        assert row.rows == 0
        assert row.like in CALIBRATION.devices
    # One that has been measured itself no longer follows.
    measured = replace(own, rows=12)
    apart = replace(CALIBRATION, devices={**CALIBRATION.devices, "hopper-large": measured})
    kept = inherited(apart, with_values(apart, [GEMM], [0.5])).devices["hopper-large"]
    assert kept.gemm_efficiency == own.gemm_efficiency


def test_a_moved_row_gets_the_days_date_and_the_set_its_version() -> None:
    found = stamped(CALIBRATION, changed((GEMM, 0.5)), "2027-01-01.1", "2027-01-01")
    assert found.version == "2027-01-01.1"
    assert found.devices["hopper"].date == "2027-01-01"
    assert found.devices["ampere"] == CALIBRATION.devices["ampere"]
    assert found.fabric == CALIBRATION.fabric


def test_every_row_has_a_source_a_date_and_the_steps_it_rests_on() -> None:
    tables = (CALIBRATION.devices, CALIBRATION.engines, CALIBRATION.kernels, CALIBRATION.low_precision)
    for row in (*(row for table in tables for row in table.values()), CALIBRATION.fabric):
        assert {"source", "date", "rows"} <= {item.name for item in fields(row)}
        assert row.source
        assert row.date
        assert row.rows or "no measured step" in row.source, row


def test_every_device_of_the_catalog_has_constants_and_a_wider_band_where_nobody_measured_it() -> None:
    for slug, item in catalog_from_csv().accelerators.items():
        row = CALIBRATION.device(slug, item.architecture)
        low, high = row.band_of(slug)
        assert low < 1 < high
        if slug not in row.measured:
            assert (low, high) == (row.band[0] / UNMEASURED, row.band[1] * UNMEASURED)
