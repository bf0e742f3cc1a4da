"""Files people bring to the catalog: spreadsheets within bounds, public price files, a dry run that says it all."""

from __future__ import annotations

import zipfile
from datetime import date, timedelta
from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hardware.models import Accelerator, Offer
from hardware.price_catalogs import PriceFileError, convert
from hardware.resources import OfferResource
from hardware.revision import current_revision
from hardware.uploads import MAX_FILE_BYTES, MAX_ROWS, BoundedCSV, BoundedXLSX, UploadError

DAY = date(2026, 11, 28)
GPUHUNT = """instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size
p5.48xlarge,us-east-1,60.5,192,2048,8,H100,80,False,
p5.48xlarge,us-west-9,61.5,192,2048,8,H100,80,True,
m5.large,us-east-1,0.1,2,8,0,,,False,
new.one,us-east-1,3.0,8,64,1,NoSuchGPU,80,False,
new.two,us-east-1,3.0,8,64,1,H100,80,False,
p5.48xlarge,us-east-1,70.5,192,2048,8,H100,80,False,
"""
SKYPILOT = """Region,InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,GpuInfo,SpotPrice
us-east-1,p5.48xlarge,H100,8.0,192,2048,60.5,"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 81559}}]}",20.5
us-east-1,bad.one,H100,8.0,192,2048,60.5,"__import__('os').system('true')",
us-east-1,t4.one,T4,1.0,4,16,0.5,"{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}], 'TotalGpuMemoryInMiB': 16384}",
us-east-1,cpu,,,4,16,0.5,,
"""


@pytest.fixture
def keeper(loaded: None, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("keeper"))
    return client


def sheet_of(kind: type[Any], **changes: Any) -> bytes:
    offers = Offer.objects.filter(provider="aws", instance_name="p5.48xlarge", pricing_kind="on-demand")
    dataset = OfferResource().export(offers)
    for name, value in changes.items():
        del dataset[name]
        dataset.append_col([value] * offers.count(), header=name)
    content = kind().export_data(dataset)
    return content if isinstance(content, bytes) else content.encode()


def upload(client: Client, content: bytes, place: str) -> Any:
    file = SimpleUploadedFile("offers", content)
    return client.post(reverse("admin:hardware_offer_import"), {"import_file": file, "format": place, "resource": "0"})


@pytest.mark.parametrize(("kind", "place"), [(BoundedCSV, "0"), (BoundedXLSX, "1")])
def test_dry_run_names_the_old_and_the_new_value(keeper: Client, kind: type[Any], place: str) -> None:
    answer = upload(keeper, sheet_of(kind, usd_per_hour="31.5"), place)
    report = answer.context["report"]
    assert [(change.column, change.old, change.new) for line in report.changed for change in line.changes] == [
        ("usd_per_hour", "55.04", "31.5")
    ]
    assert "0 added, 1 changed, 0 unchanged, 0 refused" in answer.content.decode()
    assert "<del>55.04</del>" in answer.content.decode()


def test_refused_line_says_its_number_and_the_reason(keeper: Client) -> None:
    answer = upload(keeper, sheet_of(BoundedCSV, usd_per_hour="0.1"), "0")
    (line,) = answer.context["report"].refused
    assert line.number == 2
    assert "the whole instance" in line.reasons[0]
    assert "confirm_form" not in answer.context


def test_unchanged_and_added_lines_are_counted_apart(keeper: Client) -> None:
    assert upload(keeper, sheet_of(BoundedCSV), "0").context["report"].unchanged == 1
    report = upload(keeper, sheet_of(BoundedCSV, price_date="2026-11-28"), "0").context["report"]
    assert (len(report.added), len(report.changed), report.unchanged) == (1, 0, 0)


def bomb(size: int = 1 << 27) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * size)
    return packed.getvalue()


@pytest.mark.parametrize(
    "content", [bomb(), b"no zip at all", b"x" * (MAX_FILE_BYTES + 1)], ids=["bomb", "no-zip", "large"]
)
def test_harmful_spreadsheet_is_not_unpacked(content: bytes) -> None:
    with pytest.raises(UploadError):
        BoundedXLSX().create_dataset(content)


def test_harmful_spreadsheet_is_an_error_at_the_form_and_never_a_500(keeper: Client) -> None:
    answer = upload(keeper, bomb(), "1")
    assert answer.status_code == 200
    assert "unpacks to more" in answer.content.decode()


def test_endless_csv_is_refused() -> None:
    with pytest.raises(UploadError):
        BoundedCSV().create_dataset("a\n" * (MAX_ROWS + 1))


@pytest.mark.usefixtures("loaded")
def test_gpuhunt_file_becomes_offers_and_unsure_lines_are_left_out() -> None:
    found = convert("gpuhunt", GPUHUNT, "aws", DAY)
    kept = [(row["region"], row["accelerator_id"], row["pricing_kind"], row["usd_per_hour"]) for row in found.rows]
    assert kept == [
        ("us-east-1", "h100-sxm5-80gb", "on-demand", "60.5"),
        ("us-west-9", "h100-sxm5-80gb", "spot", "61.5"),
    ]
    assert found.rows[0]["node_type_id"] == "aws-p5-48xlarge"
    assert [line for line, _, _ in found.left_out] == [5, 6, 7]
    assert "no device" in found.left_out[0][2]
    assert "may be h100-" in found.left_out[1][2]
    assert "stands above" in found.left_out[2][2]


@pytest.mark.usefixtures("loaded")
def test_skypilot_file_gives_both_prices_and_runs_nothing_in_it() -> None:
    found = convert("skypilot", SKYPILOT, "aws", DAY)
    kept = [(row["instance_name"], row["pricing_kind"], row["usd_per_hour"]) for row in found.rows]
    assert kept[:2] == [("p5.48xlarge", "on-demand", "60.5"), ("p5.48xlarge", "spot", "20.5")]
    assert ("t4.one", "on-demand", "0.5") in kept
    assert all(instance != "bad.one" for instance, _, _ in kept)


@pytest.mark.usefixtures("loaded")
def test_other_layout_is_named() -> None:
    with pytest.raises(PriceFileError, match="GpuInfo|Region|instance_name"):
        convert("gpuhunt", SKYPILOT, "aws", DAY)


def test_price_file_goes_through_the_same_dry_run_and_keeps_the_old_price_as_history(keeper: Client) -> None:
    before, revision = Offer.objects.count(), current_revision()
    file = SimpleUploadedFile("aws.csv", GPUHUNT.encode())
    sent = {"layout": "gpuhunt", "provider": "aws", "price_date": DAY.isoformat(), "import_file": file}
    dry = keeper.post(reverse("admin:hardware_offer_prices"), sent)
    assert len(dry.context["report"].added) == 2
    assert len(dry.context["left_out"]) == 3
    assert Offer.objects.count() == before
    confirm = dry.context["confirm_form"].initial
    keeper.post(reverse("admin:hardware_offer_process_import"), confirm, follow=True)
    assert Offer.objects.count() == before + 2
    assert current_revision() == revision + 1
    assert Offer.objects.filter(provider="aws", region="us-east-1", instance_name="p5.48xlarge").count() == 2


def test_row_set_back_from_its_history_is_a_new_revision(keeper: Client) -> None:
    offer = Offer.objects.get(provider="aws", instance_name="p5.48xlarge", pricing_kind="on-demand")
    offer.usd_per_hour = 60
    offer.save()
    revision = current_revision()
    earliest = offer.history.last()
    url = reverse("admin:hardware_offer_simple_history", args=[offer.pk, earliest.pk])
    form = keeper.get(url).context["adminform"].form
    data = {
        name: form.fields[name].prepare_value(form.get_initial_for_field(form.fields[name], name))
        for name in form.fields
    }
    sent = {name: value for name, value in data.items() if value not in (None, False)}
    sent |= {f"initial-{name}": value for name, value in sent.items()}
    answer = keeper.post(url, sent, follow=True)
    offer.refresh_from_db()
    assert float(offer.usd_per_hour) == 55.04
    assert current_revision() == revision + 1
    assert f"Revision {revision + 1}" in answer.content.decode()


def test_filters_find_what_is_old_unsold_or_never_checked(keeper: Client) -> None:
    def slugs(**query: str) -> set[str]:
        answer = keeper.get(reverse("admin:hardware_accelerator_changelist"), {**query, "all": "1"})
        return {row.slug for row in answer.context["cl"].queryset}

    sold = set(Offer.objects.filter(retired=False).values_list("accelerator_id", flat=True))
    assert slugs(priced="yes") == sold
    assert slugs(priced="no") == set(Accelerator.objects.values_list("slug", flat=True)) - sold
    assert "h100-sxm5-80gb" in slugs(stale="stale")
    newest = Offer.objects.filter(accelerator_id="h100-sxm5-80gb", price_date__isnull=False).first()
    assert newest is not None
    Offer.objects.filter(pk=newest.pk).update(price_date=timezone.localdate() - timedelta(days=1))
    assert "h100-sxm5-80gb" in slugs(stale="fresh")
    assert "h100-sxm5-80gb" not in slugs(stale="stale")
    Accelerator.objects.filter(slug="t4").update(checked_date=None)
    assert "t4" in slugs(sourced="unchecked")
    assert "h100-sxm5-80gb" not in slugs(sourced="unchecked")
