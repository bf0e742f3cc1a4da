"""The admin's door for public price files: a form, the conversion, and the dry run of the offers it gives."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from import_export.forms import ConfirmImportForm

from hardware.columns import OFFERS, render_table
from hardware.import_report import Line, report_of
from hardware.price_catalogs import Converted, PriceFileError, convert
from hardware.resources import OfferResource
from hardware.uploads import BoundedCSV, UploadError, check_rows, check_size

LAYOUTS = (("gpuhunt", "gpuhunt catalog, version 2"), ("skypilot", "SkyPilot catalog, version 8 (vms.csv)"))
CSV_FORMAT = "0"
"""Place of CSV among the admin's formats: the converted file is confirmed as an ordinary spreadsheet."""


class PriceFileForm(forms.Form):
    layout = forms.ChoiceField(choices=LAYOUTS)
    provider = forms.RegexField(r"^[a-z0-9][a-z0-9:._-]{0,59}$", help_text="As in the catalog: aws, gcp, lambda.")
    price_date = forms.DateField(help_text="The day the file was made: every price is dated so.")
    import_file = forms.FileField(label="File", help_text="A CSV of that layout; prices are per instance and hour.")


def price_import(admin: Any, request: HttpRequest) -> HttpResponse:
    """Show the form; with a file, what it would change, and the button that writes it."""
    form = PriceFileForm(request.POST or None, request.FILES or None, initial={"price_date": timezone.localdate()})
    context: dict[str, Any] = {
        **admin.admin_site.each_context(request),
        "title": "Import a price file",
        "opts": admin.model._meta,
        "media": admin.media + form.media,
        "form": form,
        "fields_list": [],
        "import_error_display": admin.import_error_display,
    }
    if request.method == "POST" and form.is_valid():
        try:
            converted = _converted(form)
        except (PriceFileError, UploadError, UnicodeDecodeError) as fault:
            form.add_error("import_file", f"This file cannot be read: {fault}")
        else:
            context |= _dry_run(admin, request, form, converted)
    return TemplateResponse(request, "hardware/prices.html", context)


def _converted(form: PriceFileForm) -> Converted:
    data = form.cleaned_data["import_file"].read()
    check_size(data)
    text = data.decode("utf-8-sig")
    check_rows(text.count("\n"))
    given = form.cleaned_data
    return convert(given["layout"], text, given["provider"], given["price_date"])


def _dry_run(admin: Any, request: HttpRequest, form: PriceFileForm, converted: Converted) -> dict[str, Any]:
    text = render_table(OFFERS, converted.rows)
    dataset = BoundedCSV().create_dataset(text)
    result = OfferResource().import_data(dataset, dry_run=True, raise_errors=False, user=request.user)
    found: dict[str, Any] = {"result": result, "report": report_of(result, OFFERS), "left_out": _left_out(converted)}
    if dataset and not result.has_errors() and not result.has_validation_errors():
        storage = admin.get_tmp_storage_class()(encoding="utf-8", read_mode="r")
        storage.save(text.encode())
        found["confirm_form"] = ConfirmImportForm(
            initial={
                "import_file_name": storage.name,
                "original_file_name": form.cleaned_data["import_file"].name,
                "format": CSV_FORMAT,
                "resource": "0",
            }
        )
    return found


def _left_out(converted: Converted) -> list[Line]:
    return [Line(number, what, reasons=(why,)) for number, what, why in converted.left_out]
