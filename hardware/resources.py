"""Spreadsheet import and export: the columns of the shipped files, a dry run first, every fault at its line."""

from __future__ import annotations

from typing import Any

from import_export import fields, resources
from import_export.widgets import Widget

from hardware.choices import Origin
from hardware.columns import ACCELERATORS, INTERCONNECTS, NODES, OFFERS, Column, Table
from hardware.models import Accelerator, Interconnect, NodeType, Offer
from hardware.models.catalog_row import CatalogRow
from hardware.revision import catalog_changed


class ColumnWidget(Widget):  # type: ignore[misc]  # untyped
    """A cell read and written exactly as in the shipped files."""

    def __init__(self, column: Column) -> None:
        super().__init__()
        self.column = column

    def clean(self, value: Any, row: Any = None, **kwargs: Any) -> Any:
        return self.column.parse("" if value is None else str(value))

    def render(self, value: Any, obj: Any = None, **kwargs: Any) -> str:
        return self.column.render(value)


class CatalogResource(resources.ModelResource):  # type: ignore[misc]  # untyped
    """Rows that come in through a spreadsheet count as edited here: a later load of the shipped files leaves them."""

    def before_save_instance(self, instance: CatalogRow, row: Any, **kwargs: Any) -> None:
        instance.origin = Origin.EDITED

    def after_import(self, dataset: Any, result: Any, **kwargs: Any) -> None:
        totals = result.totals
        if not kwargs.get("dry_run") and totals["new"] + totals["update"] + totals["delete"]:
            user = kwargs.get("user")
            catalog_changed(f"import of {self._meta.model._meta.verbose_name_plural} by {user}")


def _resource(model: type[CatalogRow], table: Table) -> type[CatalogResource]:
    members: dict[str, Any] = {
        column.name: fields.Field(column_name=column.name, attribute=column.key, widget=ColumnWidget(column))
        for column in table.columns
    }
    names = [column.name for column in table.columns]
    by_key = {column.key: column.name for column in table.columns}
    members["Meta"] = type(
        "Meta",
        (),
        {
            "model": model,
            "fields": names,
            "import_order": names,
            "export_order": names,
            "import_id_fields": [by_key[attribute] for attribute in table.key],
            "skip_unchanged": True,
            "report_skipped": True,
            # Without it validators and constraint messages are skipped and the database answers instead.
            "clean_model_instances": True,
            # The dry run shows old and new values of every changed line.
            "store_instance": True,
            "use_transactions": True,
        },
    )
    return type(f"{model.__name__}Resource", (CatalogResource,), members)


AcceleratorResource = _resource(Accelerator, ACCELERATORS)
NodeTypeResource = _resource(NodeType, NODES)
InterconnectResource = _resource(Interconnect, INTERCONNECTS)
OfferResource = _resource(Offer, OFFERS)
