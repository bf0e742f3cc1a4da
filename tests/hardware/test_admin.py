"""The catalog's pages: lists, edits with their revision, history, spreadsheet import with a dry run."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from accounting.catalog import Catalog
from hardware.choices import Origin
from hardware.models import Accelerator, Interconnect, NodeType, Offer
from hardware.models.catalog_row import CatalogRow
from hardware.resources import OfferResource
from hardware.revision import current_revision
from hardware.snapshot import catalog_snapshot

MODELS = [Accelerator, NodeType, Interconnect, Offer]


@pytest.fixture
def keeper(loaded: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("keeper"))
    return client


def page(row: Any, name: str = "change") -> str:
    return reverse(f"admin:hardware_{row._meta.model_name}_{name}", args=[row.pk])


def form_of(client: Client, row: CatalogRow, **changes: Any) -> dict[str, Any]:
    """The change form as a browser would send it back, with some values typed over."""
    context = client.get(page(row)).context
    form = context["adminform"].form
    data = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    data = {name: form.fields[name].prepare_value(value) for name, value in data.items()}
    data |= {f"initial-{name}": data[name] for name, field in form.fields.items() if field.show_hidden_initial}
    for formset in (inline.formset for inline in context["inline_admin_formsets"]):
        for part in [formset.management_form, *formset.forms]:
            for name, field in part.fields.items():
                data[part.add_prefix(name)] = field.prepare_value(part.get_initial_for_field(field, name))
    data.update(changes)
    return {name: value for name, value in data.items() if value is not None and value is not False}


def hourly(catalog: Catalog) -> float:
    return next(
        offer.usd_per_hour
        for offer in catalog.offers
        if (offer.provider, offer.instance, offer.pricing_kind) == ("aws", "p5.48xlarge", "on-demand")
    )


def aws_p5() -> Offer:
    return Offer.objects.get(provider="aws", instance_name="p5.48xlarge", pricing_kind="on-demand")


@pytest.mark.parametrize("model", MODELS)
def test_lists_search_and_forms_open(keeper: Client, model: type[CatalogRow]) -> None:
    changelist = reverse(f"admin:hardware_{model._meta.model_name}_changelist")
    assert keeper.get(changelist).status_code == 200
    assert keeper.get(changelist, {"q": "h100"}).status_code == 200
    row = model._default_manager.first()
    assert row is not None
    assert keeper.get(page(row)).status_code == 200
    assert keeper.get(page(row, "history")).status_code == 200


def test_edited_price_is_a_new_revision_that_plans_see(keeper: Client) -> None:
    offer, before = aws_p5(), catalog_snapshot()
    answer = keeper.post(page(offer), form_of(keeper, offer, usd_per_hour="31.5"), follow=True)
    assert f"Revision {before.revision + 1}" in answer.content.decode()
    offer.refresh_from_db()
    assert offer.origin == Origin.EDITED
    assert hourly(before) != 31.5
    assert hourly(catalog_snapshot()) == 31.5
    assert catalog_snapshot().revision == before.revision + 1
    assert offer.history.first().history_user.username == "keeper"
    assert offer.history.count() == 2


def test_form_saved_unchanged_is_no_revision(keeper: Client) -> None:
    before = current_revision()
    keeper.post(page(aws_p5()), form_of(keeper, aws_p5()), follow=True)
    assert current_revision() == before


def test_price_edited_on_the_machine_s_page(keeper: Client) -> None:
    node = NodeType.objects.get(slug="aws-p5-48xlarge")
    data = form_of(keeper, node)
    name = next(key for key in data if key.endswith("-usd_per_hour"))
    edited = Offer.objects.get(pk=data[name.replace("usd_per_hour", "id")])
    keeper.post(page(node), {**data, name: "31.5"}, follow=True)
    edited.refresh_from_db()
    assert (float(edited.usd_per_hour), edited.origin) == (31.5, Origin.EDITED)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"usd_per_hour": "0.10"}, "tick &#x27;price confirmed&#x27;"),
        ({"usd_per_hour": "-1"}, "-1 is not above 0"),
        ({"unknown": "[1]"}, "one reason for each"),
        ({"unknown": '{"price_date": 3}'}, "one reason for each"),
        ({"source": " "}, "This field is required"),
        ({"pricing_kind": "reserved"}, "names its commitment"),
    ],
)
def test_bad_price_is_refused_with_the_fix(keeper: Client, changes: dict[str, str], words: str) -> None:
    before = current_revision()
    answer = keeper.post(page(aws_p5()), form_of(keeper, aws_p5(), **changes))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert current_revision() == before


def test_sparse_rate_is_refused_in_the_form(keeper: Client) -> None:
    device = Accelerator.objects.get(slug="h100-sxm5-80gb")
    answer = keeper.post(page(device), form_of(keeper, device, bf16_teraflops="1979"))
    assert "halve the sparse rate" in answer.content.decode()


def test_retired_device_leaves_the_catalog(keeper: Client) -> None:
    device = Accelerator.objects.get(slug="t4")
    data = {"action": "retire", "_selected_action": [device.pk]}
    keeper.post(reverse("admin:hardware_accelerator_changelist"), data, follow=True)
    assert "t4" not in catalog_snapshot().accelerators
    assert Accelerator.objects.get(slug="t4").origin == Origin.EDITED


def sheet(**changes: str) -> str:
    resource = OfferResource()
    table = resource.export(Offer.objects.filter(pk=aws_p5().pk))
    row = {**dict(zip(table.headers, table[0], strict=True)), **changes}
    return ",".join(row) + "\n" + ",".join(f'"{value}"' for value in row.values()) + "\n"


def upload(client: Client, text: str) -> Any:
    file = SimpleUploadedFile("offers.csv", text.encode(), content_type="text/csv")
    return client.post(reverse("admin:hardware_offer_import"), {"import_file": file, "format": "0", "resource": "0"})


def test_import_shows_the_difference_before_it_writes(keeper: Client) -> None:
    before = current_revision()
    dry = upload(keeper, sheet(usd_per_hour="31.5"))
    assert dry.status_code == 200
    assert "31.5" in dry.content.decode()
    assert current_revision() == before
    assert float(aws_p5().usd_per_hour) != 31.5
    confirm = dry.context["confirm_form"].initial
    keeper.post(reverse("admin:hardware_offer_process_import"), {**confirm, "resource": "0"}, follow=True)
    assert float(aws_p5().usd_per_hour) == 31.5
    assert aws_p5().origin == Origin.EDITED
    assert current_revision() == before + 1
    assert hourly(catalog_snapshot()) == 31.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"usd_per_hour": "cheap"}, "is not a number"),
        ({"usd_per_hour": "0.1"}, "the whole instance"),
        ({"price_date": "yesterday"}, "isoformat"),
        ({"accelerator": "h1000"}, "h1000"),
    ],
)
def test_bad_line_of_an_import_is_named(keeper: Client, changes: dict[str, str], words: str) -> None:
    answer = upload(keeper, sheet(**changes))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert "confirm_form" not in answer.context
