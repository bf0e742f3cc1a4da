"""Shipped models → database: added and brought up to date, those edited here left alone, nothing deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db import transaction
from simple_history.utils import bulk_create_with_history

from hardware.report import TableReport
from hardware.revision import catalog_changed
from planner.specs.models import ModelSpec, Origin
from planner.specs.rows import SHIPPED_MODELS, read_models


def models_load(folder: Path = SHIPPED_MODELS) -> TableReport:
    """Loads the shipped models and says what changed; a second load changes nothing."""
    report = TableReport("models")
    rows = read_models(folder)
    with transaction.atomic():
        stored = {spec.slug: spec for spec in ModelSpec.objects.filter(team=None)}
        new = []
        for values in rows:
            spec = stored.pop(values["slug"], None)
            if spec is None:
                new.append(ModelSpec(origin=Origin.SHIPPED, **values))
            else:
                _update(spec, values, report)
        bulk_create_with_history(new, ModelSpec, default_change_reason="load_catalog")
        report.added = [spec.slug for spec in new]
        report.not_in_file = [spec.slug for spec in stored.values() if spec.origin == Origin.SHIPPED]
        if report.writes:
            catalog_changed(f"load_catalog: {report.writes} models")
    return report


def _update(spec: ModelSpec, values: dict[str, Any], report: TableReport) -> None:
    differing = [name for name, value in values.items() if getattr(spec, name) != value]
    if not differing:
        report.unchanged += 1
        return
    line = f"{spec.slug}: {', '.join(differing)}"
    if spec.origin != Origin.SHIPPED:
        report.kept_edited.append(line)
        return
    for name in differing:
        setattr(spec, name, values[name])
    spec._change_reason = "load_catalog"  # type: ignore[attr-defined]  # read by django-simple-history
    spec.save()
    report.changed.append(line)
