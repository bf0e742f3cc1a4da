"""Pages of a team's own things: pools, tokens, members, plans compared, launch files, validations, figures."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable
from io import StringIO
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounting.units import GIB
from hardware.models import Accelerator, Interconnect, Offer
from hardware.revision import catalog_changed
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.running import plan_execute
from planner.plans.services import plan_create
from planner.plans.staleness import plans_made_from
from planner.pools.models import Pool
from planner.teams.models import ApiToken, Role, Team
from planner.validation.models import ValidationRun, ValidationStatus
from planner.web.figures import STATIC
from tests.planner.web.test_pages import PLAN, loaded, planned
from tests.planner.web.test_views import browser, page, text_of

__all__ = ["browser", "loaded", "planned"]
pytestmark = pytest.mark.django_db


def test_pool_is_made_changed_and_deleted_by_the_team_only(
    browser: Callable[..., Client], loaded: None, other_team: Team
) -> None:
    client, stranger = browser("ada"), browser("eve", of=other_team)
    sent = {"slug": "ours", "accelerator": "h100-sxm5-80gb", "node_type": "aws-p5-48xlarge", "count": "64"}
    wrong = client.post(reverse("web:pool-new"), sent | {"count": "many", "node_type": "x"})
    assert wrong.status_code == 422
    assert 'value="many"' in wrong.content.decode()
    assert client.post(reverse("web:pool-new"), sent | {"usd_per_device_hour": "1.5"}).status_code == 302
    path = reverse("web:pool", args=["ours"])
    assert "$1.50" in text_of(page(client, reverse("web:pools")))
    assert stranger.get(path).status_code == 404
    assert stranger.post(path, {"delete": "1"}).status_code == 404
    assert client.post(path, sent | {"usd_per_device_hour": ""}).status_code == 302
    assert Pool.objects.get().usd_per_device_hour is None
    assert client.post(path, sent | {"version": '"1-0"'}).status_code == 412
    assert client.post(path, {"delete": "1"}).status_code == 302
    assert Pool.objects.count() == 0


def test_token_is_shown_once_and_revoked(browser: Callable[..., Client], other_team: Team) -> None:
    client, stranger = browser("ada"), browser("eve", of=other_team)
    made = client.post(reverse("web:token-new"), {"name": "ci", "scope": "read"})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    (secret,) = re.findall(r"plan_[A-Za-z0-9]+", made.content.decode())
    assert secret not in page(client, reverse("web:team"))
    token = ApiToken.objects.get()
    assert stranger.post(reverse("web:token-end"), {"token": token.public_id}).status_code == 404
    assert client.post(reverse("web:token-end"), {"token": "x"}).status_code == 404
    assert client.post(reverse("web:token-end"), {"token": token.public_id}).status_code == 302
    assert ApiToken.objects.count() == 0


def test_members_are_kept_by_admins_and_nobody_acts_for_a_strange_team(
    browser: Callable[..., Client], other_team: Team
) -> None:
    User.objects.create_user("newcomer")
    sent = {"username": "newcomer", "role": "viewer"}
    assert browser("ada").post(reverse("web:member-set"), sent).status_code == 403
    admin = browser("root", Role.ADMIN)
    assert admin.post(reverse("web:member-set"), sent).status_code == 302
    assert "newcomer" in page(admin, reverse("web:team"))
    last = admin.post(reverse("web:member-set"), {"username": "root", "remove": "1"})
    assert last.status_code == 409
    assert "one admin" in last.content.decode()
    assert admin.post(reverse("web:team-switch"), {"team": other_team.slug}).status_code == 404


def test_options_stand_side_by_side_with_their_difference(browser: Callable[..., Client], planned: PlanRun) -> None:
    answer = json.loads(planned.answer)
    first, second = answer["options"][:2]
    query = f"with={planned.pk}.1&with={planned.pk}.2"
    seen = text_of(page(browser("ada"), f"{reverse('web:compare')}?{query}"))
    difference = second["usd"] - first["usd"]
    sign = "+" if difference > 0 else chr(0x2212)
    assert f"{sign}${abs(difference):,.0f}" in seen or abs(difference) < 100
    assert "Plan " + str(planned.pk)[:8] + ", option 2" in seen


def test_more_sides_than_fit_are_refused_and_none_left_out_in_silence(
    browser: Callable[..., Client], planned: PlanRun
) -> None:
    client, where = browser("ada"), reverse("web:compare")
    for query in (
        "&".join(f"with={planned.pk}.{rank}" for rank in range(1, 6)),
        "&".join(f"with={uuid4()}" for _ in range(5)),
        "&".join([f"with={planned.pk}.1"] * 500),
    ):
        answer = client.get(f"{where}?{query}")
        assert (answer.status_code, "side by side" in answer.content.decode()) == (400, True)
    assert client.get(f"{where}?with={planned.pk}.1&with={planned.pk}&with={planned.pk}.2").status_code == 200
    for gone in (f"{uuid4()}", f"{planned.pk}.99", f"{planned.pk}.0", "x", f"{planned.pk}.1.1"):
        assert client.get(f"{where}?with={planned.pk}.1&with={gone}").status_code == 404


def test_a_nul_reaches_no_database(browser: Callable[..., Client]) -> None:
    client = browser("root", Role.ADMIN)
    client.raise_request_exception = False
    for where in ("/hardware/pools/a%00/", "/hardware/a%00/", "/models/%00/", "/?status=%00", "/compare/?with=%00"):
        assert client.get(where).status_code == 400, where
    User.objects.filter(username="root").update(is_staff=True, is_superuser=True)
    for where in ("?slug=%00", "?slug__in=%00,a", "a%00/history/"):
        assert client.get(f"/admin/planner/pool/{where}").status_code == 400, where
    assert (
        client.post("/admin/planner/pool/", {"action": "delete_selected", "_selected_action": "\0"}).status_code == 400
    )
    sent = ("web:member-set", {"username": "a\0", "role": "viewer"}), ("web:team-switch", {"team": "\0"})
    for name, fields in (*sent, ("web:token-new", {"name": "\0", "scope": "read"})):
        assert client.post(reverse(name), fields).status_code == 400, name


def test_exports_of_an_option_are_the_apis_bytes(
    browser: Callable[..., Client], planned: PlanRun, caller: Callable[..., Any]
) -> None:
    client, api = browser("ada"), caller("bob")
    links = json.loads(planned.answer)["options"][0]["exports"]
    assert links
    for key, link in links.items():
        theirs = api.get(f"/api/v1/plans/{planned.pk}/{link}").content
        ours = client.get(f"{reverse('web:exports', args=[planned.pk, 1, key])}?download=1")
        assert ours.content == theirs
        assert ours["Content-Disposition"].startswith("attachment")
    assert client.get(reverse("web:exports", args=[planned.pk, 1, "nonsense"])).status_code == 404


def test_home_adds_up_what_plans_would_cost(browser: Callable[..., Client], planned: PlanRun) -> None:
    best = json.loads(planned.answer)["recommendation"]
    seen = text_of(page(browser("ada"), reverse("web:plans")))
    assert f"{planned.team.name} 1 ${best['usd']:,.0f}" in seen


def test_plan_made_of_an_older_catalog_says_so_and_editors_hear_how_many(
    browser: Callable[..., Client], planned: PlanRun
) -> None:
    client, path = browser("ada"), reverse("web:plan", args=[planned.pk])
    assert "changed since" not in page(client, path)
    catalog_changed("a test")
    assert "changed since" in page(client, path)
    assert plans_made_from([Accelerator.objects.get(slug="h100-sxm5-80gb")]) == 1
    assert plans_made_from([Accelerator.objects.get(slug="t4")]) == 0


def test_infeasible_plan_leads_to_the_request_that_works(
    browser: Callable[..., Client], loaded: None, team: Team, rings: list[Any]
) -> None:
    tight = PLAN | {"model": "llama-2-70b", "hardware": {"accelerators": ["a100-sxm4-40gb"], "max_count": 8}}
    run, _ = plan_create(team=team, user=None, payload=tight, enqueue=False)
    plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert run.status == PlanStatus.INFEASIBLE
    client = browser("ada")
    html = page(client, reverse("web:plan", args=[run.pk]))
    place = re.search(rf'class="btn main" href="[^"]*from={run.pk}&amp;change=(\d+)"', html)
    assert place is not None
    form = client.get(f"{reverse('web:plan-new')}?from={run.pk}&change={place[1]}").context["form"]
    sent: dict[str, Any] = {"model_kind": form.kind}
    for name, field in form.fields.items():
        ticked = [choice.value for choice in field.choices if choice.chosen]
        sent[name] = ticked if field.row.kind in ("list", "wholes") else field.value
    answer = client.post(reverse("web:plan-new"), sent)
    assert answer.status_code == 302, answer.context["form"].summary
    again = PlanRun.objects.exclude(pk=run.pk).get()
    plan_execute(plan_id=again.pk)
    again.refresh_from_db()
    assert again.status == PlanStatus.SUCCEEDED


def test_validations_show_predicted_beside_measured(
    browser: Callable[..., Client], team: Team, other_team: Team
) -> None:
    run = ValidationRun.objects.create(
        team=team,
        kind="cpu",
        request="{}",
        request_digest="0" * 64,
        status=ValidationStatus.SUCCEEDED,
        answer=json.dumps(
            {"comparison": {"lines": [{"line": "states", "predicted": 5, "measured": 4, "agrees": False}]}}
        ),
        finished_at=timezone.now(),
        model="llama-3-8b",
        sharding_engine="fsdp2",
        predicted_bytes=11 * GIB,
        measured_bytes=10 * GIB,
        agrees=False,
    )
    seen = text_of(page(browser("ada"), reverse("web:validations")))
    assert "0 of 1 runs within 10 %" in seen or "1 of 1 runs within 10 %" in seen
    assert "+10.0 %" in seen
    path = reverse("web:validation", args=[run.pk])
    assert "states 5 4 +25.0 %" in text_of(page(browser("bob"), path))
    assert browser("eve", of=other_team).get(path).status_code == 404


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("/", 12),
        ("/plans/new/", 12),
        ("/hardware/", 9),
        ("/hardware/h100-sxm5-80gb/", 10),
        ("/hardware/nodes/", 7),
        ("/hardware/links/", 7),
        ("/hardware/pools/", 6),
        ("/models/import/", 5),
        ("/keys/", 5),
        ("/compare/", 7),
        ("/models/", 6),
        ("/optimizers/", 6),
        ("/validations/", 9),
        ("/team/", 10),
        ("/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b", 14),
    ],
)
def test_page_keeps_its_weight_and_its_queries(
    browser: Callable[..., Client], loaded: None, django_assert_max_num_queries: Any, path: str, queries: int
) -> None:
    client = browser("ada")
    client.get(path)
    with django_assert_max_num_queries(queries):
        answer = client.get(path)
    assert len(answer.content) <= 150_000


@pytest.mark.parametrize(("path", "queries"), [("", 12), ("options/2/", 14), ("options/1/explain/cost/", 14)])
def test_plan_pages_keep_their_weight_and_their_queries(
    browser: Callable[..., Client], planned: PlanRun, django_assert_max_num_queries: Any, path: str, queries: int
) -> None:
    client, address = browser("ada"), f"{reverse('web:plan', args=[planned.pk])}{path}"
    client.get(address)
    with django_assert_max_num_queries(queries):
        answer = client.get(address)
    assert len(answer.content) <= 150_000


def test_own_style_sheets_stay_small() -> None:
    """planner.css goes to every page; answers.css only to pages that show plans, estimates, prices or measurements."""
    for name, most, most_packed in (("planner.css", 9_000, 3_000), ("answers.css", 7_000, 2_300)):
        sheet = (STATIC / name).read_bytes()
        assert len(sheet) <= most, name
        assert len(gzip.compress(sheet, 6)) <= most_packed, name


def test_price_history_and_runs_come_as_files(browser: Callable[..., Client], loaded: None, team: Team) -> None:
    client = browser("ada")
    address = reverse("web:device-prices", args=["h100-sxm5-80gb", "csv"])
    rows = list(csv.DictReader(StringIO(client.get(address).content.decode())))
    lowest = min(
        float(offer.usd_per_accelerator_hour)
        for offer in Offer.objects.filter(accelerator_id="h100-sxm5-80gb", pricing_kind="on-demand")
    )
    assert min(float(row["usd_per_gpu_hour"]) for row in rows) == pytest.approx(lowest)
    drawn = client.get(reverse("web:device-prices", args=["h100-sxm5-80gb", "svg"])).content.decode()
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert rows[0]["provider"] in drawn
    assert client.get(reverse("web:device-prices", args=["h100-sxm5-80gb", "pdf"])).status_code == 404
    assert client.get(reverse("web:device-prices", args=["no-such", "csv"])).status_code == 404
    assert client.get(reverse("web:validations-figure", args=["csv"])).status_code == 404
    ValidationRun.objects.create(
        team=team, kind="cpu", request="{}", request_digest="0" * 64, status=ValidationStatus.SUCCEEDED, answer="{}",
        finished_at=timezone.now(), model="llama-3-8b", sharding_engine="fsdp2", predicted_bytes=11 * GIB,
        measured_bytes=10 * GIB,
    )  # fmt: skip
    measured = client.get(reverse("web:validations-figure", args=["csv"])).content.decode().splitlines()
    assert measured[1].startswith("FSDP2,10.0,11.0,")
    runs = client.get(reverse("web:validations-figure", args=["svg"])).content.decode()
    assert ElementTree.fromstring(runs).tag == "{http://www.w3.org/2000/svg}svg"


def test_links_say_what_was_measured_over_them(browser: Callable[..., Client], loaded: None) -> None:
    seen = text_of(page(browser("ada"), reverse("web:links")))
    for link in Interconnect.objects.filter(retired=False):
        assert link.name in seen
    assert "Ethernet 10 GbE per node Between machines 0.156 30" in seen


@pytest.mark.parametrize("name", ["ledger", "phases", "step", "points"])
def test_figures_come_as_files_that_stand_alone(browser: Callable[..., Client], planned: PlanRun, name: str) -> None:
    client = browser("ada")
    answer = json.loads(planned.answer)
    drawn = client.get(reverse("web:figure", args=[planned.pk, 1, name, "svg"]))
    text = drawn.content.decode()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in text
    assert "light-dark" not in text
    rows = list(
        csv.DictReader(StringIO(client.get(reverse("web:figure", args=[planned.pk, 1, name, "csv"])).content.decode()))
    )
    if name == "ledger":
        memory = answer["recommendation"]["answer"]["memory"]
        sizes = [int(row[f"{memory['peak_phase']}_bytes"]) for row in rows if row["on_device"] == "True"]
        assert sum(sizes) == memory["peak_allocated_bytes"]
    if name == "points":
        assert [float(row["usd"]) for row in rows if row["rank"] == "1"] == [answer["options"][0]["usd"]]
    assert client.get(reverse("web:figure", args=[planned.pk, 1, "x", "csv"])).status_code == 404
