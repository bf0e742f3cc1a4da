"""Saved plans side by side and against today's prices: the API's numbers, the page's words and the command's rows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from hardware.models import Offer
from hardware.revision import catalog_changed
from planner.plans.comparison import Reference, difference, reference, sides_of
from planner.plans.models import PlanRun
from planner.plans.running import plan_execute
from planner.plans.services import plan_create, plan_rerun
from planner.teams.models import Role, Team
from planner.teams.services import membership_set, team_embedded, token_create
from planner.text import render_comparison
from planner.text.table import ascii_text
from planner.web import choices
from planner.web.compare import compare
from tests.people import PLAN, Caller, quiet_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("rings")]

COMPARE = "/api/v1/plans/compare/"
SOME, OTHER = "8e1f3a9c-5d27-4b60-9a41-2f7c6d8e0b13", "c4b7d2e8-90a1-4f3c-b5d6-7e8f9a0b1c2d"
"""Well-formed and nobody's; fixed, because workers that share a run must collect the same names."""


@pytest.fixture
def team() -> Team:
    """The embedded instance's own, which the command acts for."""
    return team_embedded()


@pytest.fixture
def ada(team: Team) -> User:
    user = User.objects.create_user("ada")
    membership_set(team=team, user=user, role=Role.PLANNER)
    return user


@pytest.fixture
def api(team: Team, ada: User) -> Caller:
    return Caller(quiet_client(), token_create(team=team, user=ada, name="t", scope="plan")[1])


@pytest.fixture
def saved(team: Team) -> PlanRun:
    """A finished plan of a real search over the shipped catalog."""
    call_command("load_catalog", verbosity=0)
    return finished(plan_create(team=team, user=None, payload=PLAN)[0])


def finished(run: PlanRun) -> PlanRun:
    plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert run.answer
    return run


def dearer(factor: str) -> None:
    """Every price of the plan's device times a factor, as an editor would."""
    for offer in Offer.objects.filter(accelerator__slug="h100-sxm5-80gb"):
        offer.usd_per_hour = float(offer.usd_per_hour) * float(factor)
        offer.save()
    catalog_changed("a test")


def best(run: PlanRun) -> dict[str, Any]:
    option: dict[str, Any] = json.loads(run.answer)["recommendation"]
    return option


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command("compare", *arguments, stdout=out)
    return out.getvalue()


def test_without_a_change_a_rerun_differs_in_nothing(team: Team, saved: PlanRun, api: Caller) -> None:
    again = api.post(f"/api/v1/plans/{saved.pk}/rerun/", None)
    assert again.status_code == 202
    run = finished(PlanRun.objects.get(pk=again.json()["id"]))
    assert again["Location"] == f"/api/v1/plans/{run.pk}/"
    assert (run.request, run.owner, run.team) == (saved.request, User.objects.get(username="ada"), team)
    changed = api.get(f"{COMPARE}?ids={saved.pk},{run.pk}").json()["differences"][1]
    assert changed.pop("same_configuration") is True
    assert not any(changed.pop("by_bucket").values())
    assert set(changed.values()) == {0}


def test_todays_prices_are_told_in_dollars(saved: PlanRun, api: Caller, team: Team) -> None:
    dearer("1.25")
    run = finished(plan_rerun(team=team, user=None, plan_id=saved.pk))
    answer = api.get(f"{COMPARE}?ids={saved.pk},{run.pk}").json()
    first, other = best(saved), best(run)
    changed = answer["differences"][1]
    assert changed["usd"] == other["usd"] - first["usd"]
    assert changed["usd_by_price"] == pytest.approx(0.25 * first["usd"])
    assert changed["usd_by_price"] + changed["usd_by_hours"] == pytest.approx(changed["usd"])
    assert (changed["hours"], changed["same_configuration"]) == (0, True)
    assert answer["made_with"]["catalog_revision"][0] < answer["made_with"]["catalog_revision"][1]
    assert answer["request"] == {}


def test_the_page_and_the_command_show_what_the_api_answers(saved: PlanRun, api: Caller, team: Team, ada: User) -> None:
    dearer("0.5")
    client = Client()
    client.force_login(ada)
    moved = client.post(reverse("web:plan-today", args=[saved.pk]))
    run = PlanRun.objects.exclude(pk=saved.pk).get()
    assert moved.headers["Location"] == f"{reverse('web:compare')}?with={saved.pk}.1&with={run.pk}.1"
    waiting = client.get(moved.headers["Location"]).content.decode()
    assert "(queued)" in waiting
    assert 'hx-trigger="every 2s"' in waiting
    finished(run)
    page = client.get(moved.headers["Location"]).content.decode()
    assert "hx-trigger" not in page.partition('id="compared"')[2].partition(">")[0]

    sides = sides_of(team, [Reference(saved.pk), Reference(run.pk)])
    lines = compare(sides, choices.accelerator_names())
    written = api.get(f"{COMPARE}?ids={saved.pk},{run.pk}").content.decode()
    assert json.loads(printed(str(saved.pk), str(run.pk), "--json")) == json.loads(written)
    table = printed(str(saved.pk), str(run.pk))
    assert table.strip() == render_comparison(sides, choices.accelerator_names()).strip()
    for line in lines:
        for said in (line.name, *line.values, line.difference):
            assert said in page.replace("&#x27;", "'").replace("&nbsp;", "\u00a0")
            assert ascii_text(said) in table
    cost = next(line for line in lines if line.name == "Cost, whole job")
    usd = json.loads(written)["differences"][1]["usd"]
    assert usd < 0
    assert cost.difference == f"\u2212${-usd:,.0f}"


def test_the_command_runs_a_saved_plan_again(saved: PlanRun) -> None:
    dearer("2")
    answer = json.loads(printed(f"{saved.pk}.2", "--today", "--json"))
    assert [plan["id"] for plan in answer["plans"]] == [str(saved.pk), answer["plans"][1]["id"]]
    old, new = answer["options"]
    assert (old["rank"], new["rank"]) == (2, 1)
    assert answer["differences"][1]["usd"] == new["usd"] - old["usd"]
    assert "of it by the price" in printed(str(saved.pk), "--today")


@pytest.mark.parametrize("arguments", [["x"], ["x", "y"], [SOME], [SOME, OTHER], [SOME, "--today"]])
@pytest.mark.usefixtures("team")
def test_the_command_refuses_what_is_no_pair(arguments: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        printed(*arguments)
    assert caught.value.returncode == 2


def test_options_of_one_plan_stand_side_by_side(saved: PlanRun, api: Caller) -> None:
    answer = api.get(f"{COMPARE}?ids={saved.pk}.1,{saved.pk}.2,{saved.pk}.3").json()
    rows = json.loads(saved.answer)["options"][:3]
    assert [row["usd"] for row in answer["options"]] == [row["usd"] for row in rows]
    assert answer["recommendation"]["usd"] == [row["usd"] for row in rows]
    for option, row in zip(answer["options"], rows, strict=True):
        assert (option["hours_band"], option["offer"]) == (row["hours_band"], row["offer"])
        assert option["memory"]["device_bytes_band"] == row["memory"]["device_bytes_band"]
    for number in (1, 2):
        buckets = answer["differences"][number]["by_bucket"]
        held = [row["memory"]["peak_allocated_bytes"] for row in (rows[0], rows[number])]
        assert sum(buckets.values()) == held[1] - held[0]
    assert api.get(f"{COMPARE}?ids={saved.pk},{saved.pk}.99").status_code == 404


@pytest.mark.usefixtures("quick_search")
def test_another_teams_plan_is_not_there_to_run_or_to_compare(
    api: Caller, stranger: Caller, owner: Caller, caller: Callable[..., Caller]
) -> None:
    mine, second = (UUID(owner.post("/api/v1/plans/", {**PLAN, "options": number}).json()["id"]) for number in (1, 2))
    before = PlanRun.objects.count()
    for somebody in (stranger,):
        assert somebody.post(f"/api/v1/plans/{mine}/rerun/", None).status_code == 404
        assert somebody.get(f"{COMPARE}?ids={mine},{second}").status_code == 404
    assert caller("reader", role=Role.VIEWER).post(f"/api/v1/plans/{mine}/rerun/", None).status_code == 403
    assert PlanRun.objects.count() == before
    headers = {"Idempotency-Key": "today-1"}
    first = owner.post(f"/api/v1/plans/{mine}/rerun/", None, **headers)
    assert owner.post(f"/api/v1/plans/{mine}/rerun/", None, **headers).json()["id"] == first.json()["id"]
    assert owner.post(f"/api/v1/plans/{second}/rerun/", None, **headers).status_code == 422


@pytest.mark.usefixtures("quick_search")
def test_the_saved_plan_is_never_the_answer_of_running_it_again(owner: Caller) -> None:
    """A scheduler that makes one key of its job's name would take last week's prices for today's."""
    headers = {"Idempotency-Key": "job-17"}
    saved = owner.post("/api/v1/plans/", PLAN, **headers).json()["id"]
    answer = owner.post(f"/api/v1/plans/{saved}/rerun/", None, **headers)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "idempotency_key_reused")
    assert PlanRun.objects.count() == 1


@pytest.mark.usefixtures("quick_search")
def test_a_body_that_nobody_reads_is_refused(owner: Caller) -> None:
    saved = owner.post("/api/v1/plans/", PLAN).json()["id"]
    answer = owner.post(f"/api/v1/plans/{saved}/rerun/", {"objective": "time"})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "not_read")
    assert owner.post(f"/api/v1/plans/{saved}/rerun/", {}).status_code == 202
    assert PlanRun.objects.count() == 2


def test_a_saved_request_that_todays_catalog_cannot_answer_says_why(saved: PlanRun, api: Caller) -> None:
    stored = json.loads(saved.request) | {"model": "gone-with-the-wind"}
    PlanRun.objects.filter(pk=saved.pk).update(request=json.dumps(stored))
    answer = api.post(f"/api/v1/plans/{saved.pk}/rerun/", None)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/model")


@pytest.mark.parametrize("text", ["", "x", "1.2", f"{SOME}.", f"{SOME}.0", f"{SOME}.-1", f"{SOME}.12345"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=".*"):
        reference(text)


def test_unknown_numbers_stay_unknown_in_a_difference() -> None:
    known = {"hours": 2.0, "usd": 8.0, "usd_per_hour": 4.0, "memory": {"by_bucket": {"parameters": 1}}}
    unpriced = known | {"usd": None, "usd_per_hour": None}
    assert difference(known, None) is difference(None, known) is None
    found = difference(known, unpriced)
    assert found is not None
    assert (found["hours"], found["usd"], found["usd_by_price"], found["usd_by_hours"]) == (0, None, None, None)
    hourly = difference(known | {"hours": None, "usd": None}, known | {"hours": None, "usd": None, "usd_per_hour": 5.0})
    assert hourly is not None
    assert (hourly["usd_per_hour"], hourly["usd_by_price"]) == (1.0, None)
