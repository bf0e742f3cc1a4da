"""Loading: complete, repeatable, kind to rows edited here, all or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from hardware.choices import Origin
from hardware.columns import TABLES, CatalogFileError
from hardware.loader import SHIPPED_DATA, catalog_export, catalog_load
from hardware.models import Accelerator, CatalogRevision, NodeType, Offer
from hardware.revision import current_revision
from hardware.snapshot import MODELS

pytestmark = pytest.mark.django_db


def copied(folder: Path) -> Path:
    for table in TABLES:
        shutil.copy(SHIPPED_DATA / table.file_name, folder)
    return folder


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_first_load_adds_every_row_with_history() -> None:
    reports = catalog_load()
    assert {report.name: len(report.added) for report in reports} == {
        "interconnects": 42,
        "accelerators": 81,
        "nodes": 165,
        "offers": 404,
    }
    assert current_revision() == CatalogRevision.objects.get().number
    device = Accelerator.objects.get(slug="h100-sxm5-80gb")
    assert device.origin == Origin.SHIPPED
    assert device.default_node is not None
    assert device.default_node.slug == "aws-p5-48xlarge"
    assert device.history.get().history_change_reason == "load_catalog"


def test_every_stored_row_is_clean(loaded: None) -> None:
    for model in MODELS.values():
        for row in model._default_manager.all():
            row.full_clean(validate_unique=False, validate_constraints=False)


def test_second_load_changes_nothing(loaded: None) -> None:
    before = current_revision()
    assert [(report.writes, report.kept_edited) for report in catalog_load()] == [(0, [])] * len(TABLES)
    assert current_revision() == before


def test_changed_file_updates_shipped_rows_and_says_what_was(loaded: None, tmp_path: Path) -> None:
    before = current_revision()
    offer = Offer.objects.get(instance_name="p5.48xlarge", pricing_kind="on-demand", provider="aws")
    price = f"{offer.usd_per_hour.normalize():f}"
    replace(copied(tmp_path) / "offers.csv", f"on-demand,,{price},2026-07-20,exact", "on-demand,,44.5,2026-07-20,exact")
    report = next(report for report in catalog_load(tmp_path) if report.name == "offers")
    assert len(report.changed) == 1
    assert f"usd_per_hour {price}" in report.changed[0]
    assert "-> 44.5" in report.changed[0]
    offer.refresh_from_db()
    assert float(offer.usd_per_hour) == 44.5
    assert offer.history.count() == 2
    assert current_revision() > before


def test_row_edited_here_is_kept_and_named(loaded: None) -> None:
    Offer.objects.filter(instance_name="p5.48xlarge").update(usd_per_hour=50, origin=Origin.EDITED)
    report = next(report for report in catalog_load() if report.name == "offers")
    assert not report.changed
    assert len(report.kept_edited) >= 1
    assert set(Offer.objects.filter(instance_name="p5.48xlarge").values_list("usd_per_hour", flat=True)) == {50}


def test_row_that_left_the_file_stays(loaded: None, tmp_path: Path) -> None:
    path = copied(tmp_path) / "offers.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    report = next(report for report in catalog_load(tmp_path) if report.name == "offers")
    assert len(report.not_in_file) == 1
    assert Offer.objects.count() == 404


def test_bad_file_loads_nothing_and_names_every_fault(tmp_path: Path) -> None:
    copied(tmp_path)
    replace(tmp_path / "accelerators.csv", ",989.4,989.4,1978.9,", ",989.4,1979,3958,")
    replace(tmp_path / "nodes.csv", "aws,p5.48xlarge,h100-sxm5-80gb,8", "aws,p5.48xlarge,h1000,8")
    with pytest.raises(CatalogFileError) as caught:
        catalog_load(tmp_path)
    text = str(caught.value)
    assert "accelerators.csv: H100-SXM5-80GB: bf16_teraflops" in text
    assert "aws-p5-48xlarge: accelerator h1000 is not in accelerators" in text
    assert not NodeType.objects.exists()
    assert not CatalogRevision.objects.exists()


def test_export_of_a_fresh_load_is_the_shipped_files(loaded: None, tmp_path: Path) -> None:
    for path in catalog_export(tmp_path):
        assert path.read_bytes() == (SHIPPED_DATA / path.name).read_bytes()


def test_commands_print_the_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("load_catalog")
    first = capsys.readouterr().out
    assert "accelerators: 81 added" in first
    assert "models: 161 added" in first
    call_command("load_catalog")
    assert "offers: 0 added, 0 changed, 404 unchanged" in capsys.readouterr().out
    call_command("export_catalog", str(tmp_path))
    assert (tmp_path / "offers.csv").exists()


def test_command_names_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nothing was loaded"):
        call_command("load_catalog", "--folder", str(tmp_path / "missing"))
