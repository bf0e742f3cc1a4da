"""Files → database: new rows added, shipped rows brought up to date, rows edited here left alone, nothing deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import models, transaction
from simple_history.utils import bulk_create_with_history

from hardware.choices import Origin
from hardware.columns import TABLES, CatalogFileError, Row, Table, read_table, render_table
from hardware.consistency import reference_faults
from hardware.models.catalog_row import CatalogRow
from hardware.records import SHIPPED_DATA, catalog_from_csv
from hardware.report import TableReport
from hardware.revision import catalog_changed
from hardware.snapshot import MODELS, stored_rows
from hardware.validators import row_faults

__all__ = ["SHIPPED_DATA", "catalog_export", "catalog_from_csv", "catalog_load"]


def catalog_load(folder: Path = SHIPPED_DATA) -> list[TableReport]:
    """Loads a folder of catalog files and says what changed; a second load changes nothing.

    Raises CatalogFileError with every fault of every file; then nothing was written.
    """
    rows = {table.name: read_table(folder, table) for table in TABLES}
    faults = [
        f"{table.file_name}: {'/'.join(map(str, table.key_of(row)))}: {fault.attribute}: {fault.message}"
        for table in TABLES
        for row in rows[table.name]
        for fault in row_faults(table, row)
    ]
    faults += reference_faults(rows)
    if faults:
        raise CatalogFileError(faults)
    with transaction.atomic():
        reports = [_load_table(table, rows[table.name]) for table in TABLES]
        if any(report.writes for report in reports):
            counts = ", ".join(f"{report.writes} {report.name}" for report in reports if report.writes)
            catalog_changed(f"load_catalog: {counts}")
    return reports


def catalog_export(folder: Path) -> list[Path]:
    """Writes the rows in use as catalog files, ready to be loaded again."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = stored_rows()
    paths = []
    for table in TABLES:
        path = folder / table.file_name
        path.write_text(render_table(table, rows[table.name]), encoding="utf-8")
        paths.append(path)
    return paths


def _load_table(table: Table, rows: list[Row]) -> TableReport:
    model = MODELS[table.name]
    report = TableReport(table.name)
    stored = {table.key_of(instance.row()): instance for instance in model._default_manager.all()}
    new: list[CatalogRow] = []
    for row in rows:
        instance = stored.pop(table.key_of(row), None)
        if instance is None:
            new.append(model(origin=Origin.SHIPPED, **row))
        else:
            _update(instance, row, report)
    # Circular references (a device's default machine, a machine's device) are checked at the end of the transaction.
    bulk_create_with_history(new, model, default_change_reason="load_catalog")
    report.added = [str(instance) for instance in new]
    report.not_in_file = [str(instance) for instance in stored.values() if instance.origin == Origin.SHIPPED]
    return report


def _update(instance: CatalogRow, row: Row, report: TableReport) -> None:
    held = instance.row()
    differences = {name: (held[name], value) for name, value in row.items() if held[name] != value}
    if not differences:
        report.unchanged += 1
        return
    line = f"{instance}: " + ", ".join(
        f"{name} {_shown(old)} -> {_shown(new)}" for name, (old, new) in differences.items()
    )
    if instance.origin == Origin.EDITED:
        report.kept_edited.append(line)
        return
    for name, (_, value) in differences.items():
        setattr(instance, name, value)
    _save_with_reason(instance)
    report.changed.append(line)


def _save_with_reason(instance: models.Model) -> None:
    instance._change_reason = "load_catalog"  # type: ignore[attr-defined]  # read by django-simple-history
    instance.save()


def _shown(value: Any) -> str:
    return "nothing" if value in (None, "") else str(value)
