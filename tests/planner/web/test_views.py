"""Pages through Django: their numbers are the answer's, strangers see nothing, faults stand at their fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from planner.errors import Fault, InvalidRequest
from planner.plans.models import PlanRun, PlanStatus
from planner.teams.models import Role, Team
from tests.planner.web import answers

pytestmark = pytest.mark.django_db
GIB = answers.GIB
NAMES = answers.NAMES


@pytest.fixture(autouse=True)
def plain_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.web.choices.accelerator_names", lambda: NAMES)
    monkeypatch.setattr("planner.web.views.answer_of", lambda request, team: answers.estimate_answer())


@pytest.fixture
def browser(person: Callable[..., User]) -> Callable[..., Client]:
    def make(name: str, role: str = Role.PLANNER, **membership: Any) -> Client:
        client = Client()
        client.force_login(person(name, role, **membership))
        return client

    return make


@pytest.fixture
def stored(team: Team) -> Callable[..., PlanRun]:
    def make(status: str = PlanStatus.SUCCEEDED, answer: Any = None, request: Any = None, **more: Any) -> PlanRun:
        final = status not in (PlanStatus.QUEUED, PlanStatus.RUNNING)
        return PlanRun.objects.create(
            team=team,
            request=json.dumps(request or answers.PLAN_REQUEST),
            request_digest="0" * 64,
            status=status,
            answer="" if answer is None else json.dumps(answer),
            finished_at=timezone.now() if final else None,
            **more,
        )

    return make


def text_of(html: str) -> str:
    """What a reader sees, tags and folded space away."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ")


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def test_page_prints_the_answers_own_numbers(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    run = stored(answer=answers.plan_answer())
    seen = text_of(page(browser("ada"), reverse("web:plan", args=[run.pk])))
    assert "Fits on 16 × H100 SXM5 80 GB: 36.2 hours, $1,730 for the whole job." in seen
    assert "Needs 67.7 GiB of 79.6 GiB per GPU" in seen
    for size in answers.BUCKETS.values():
        if size:
            assert f"{size / GIB:.2f}" in seen
    for number in (f"{answers.ALLOCATED / GIB:.2f}", f"{answers.DEVICE / GIB:.2f}", "$47.84 per hour, all 16 GPUs"):
        assert number in seen
    assert "14,309 steps" in seen or "14,306 steps" in seen
    assert "1,684 of 2,072" in seen


def test_bar_on_the_page_ends_where_its_segments_end(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    html = page(browser("ada"), reverse("web:plan", args=[stored(answer=answers.plan_answer()).pk]))
    bar = html[html.index('aria-labelledby="memory-t') :]
    bar = bar[: bar.index("</figure>")]
    widths = [float(width) for width in re.findall(r'<rect x="[\d.]+%" y="26" width="([\d.]+)%"[^>]*gap', bar)]
    dot = re.search(r'<circle cx="([\d.]+)%"', bar)
    assert dot is not None
    assert len(widths) == 10
    assert sum(widths) == pytest.approx(float(dot[1]), abs=0.05)


def test_every_page_keeps_the_content_policy(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    client = browser("ada")
    paths = [reverse("web:plan", args=[stored(answer=answers.plan_answer()).pk]), reverse("web:plans"), "/keys/"]
    paths += [reverse("web:plan", args=[stored(PlanStatus.RUNNING, lease=uuid4()).pk])]
    for path in paths:
        html = page(client, path)
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", html), path
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", html)), path


def test_hostile_names_are_escaped(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    answer = answers.plan_answer()
    answer["options"][0]["offer"]["provider"] = evil
    answer["why"] = answer["why_not"] = [evil]
    answer["what_if"][0]["change"] = evil
    answer["rejections"] = {evil: 3}
    answer["points"][0]["accelerator"] = evil
    answer["provenance"]["catalog_revision"] = evil
    answer["recommendation"]["answer"]["assumptions"] = [evil]
    answer["recommendation"]["answer"]["memory"]["lines"][0]["note"] = evil
    run = stored(answer=answer, request=answers.PLAN_REQUEST | {"model": {"config": {"model_type": evil}}})
    client = browser("ada")
    for path in (reverse("web:plan", args=[run.pk]), reverse("web:plans"), f"{reverse('web:plan-new')}?from={run.pk}"):
        html = page(client, path)
        assert "<script>alert" not in html
        assert "<img src=x" not in html
        assert "&lt;script&gt;alert" in html


def test_stranger_gets_404_at_every_door(
    browser: Callable[..., Client], stored: Callable[..., PlanRun], other_team: Team
) -> None:
    run, client = stored(answer=answers.plan_answer()), browser("eve", of=other_team)
    for name, arguments in (("plan", [run.pk]), ("plan-progress", [run.pk]), ("plan-option", [run.pk, 2])):
        assert client.get(reverse(f"web:{name}", args=arguments)).status_code == 404
    assert client.post(reverse("web:plan-cancel", args=[run.pk])).status_code == 404
    assert str(run.pk) not in page(client, reverse("web:plans"))
    assert "llama" not in page(client, f"{reverse('web:plan-new')}?from={run.pk}").replace('list="model-list"', "")


def test_without_a_session_every_page_asks_to_sign_in(stored: Callable[..., PlanRun]) -> None:
    run = stored(answer=answers.plan_answer())
    for path in (reverse("web:plans"), reverse("web:plan", args=[run.pk]), reverse("web:plan-new")):
        response = Client().get(path)
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("web:login"))


def test_viewer_reads_and_may_not_plan(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    run, client = stored(PlanStatus.QUEUED), browser("vic", Role.VIEWER)
    assert "Cancel" not in page(client, reverse("web:plan", args=[run.pk]))
    assert client.get(reverse("web:plan-new")).status_code == 403
    assert client.post(reverse("web:plan-cancel", args=[run.pk])).status_code == 403


def test_person_without_a_team_is_told_so(team: Team) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody"))
    response = client.get(reverse("web:plans"))
    assert response.status_code == 403
    assert "in no team" in response.content.decode()


def test_form_shows_all_faults_at_their_fields_and_keeps_what_was_typed(
    browser: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise InvalidRequest(
            [
                Fault("/workload/tokens", "wrong_type", '"many" is not a whole number'),
                Fault("/workload/global_batch_tokens", "not_a_multiple", "nearest: 999424 or 1007616"),
            ]
        )

    monkeypatch.setattr("planner.web.views.services.plan_create", refuse)
    sent = {"model_kind": "catalog", "model": "llama-3-8b", "tokens": "many", "global_batch_tokens": "1000000"}
    response = browser("ada").post(reverse("web:plan-new"), sent)
    html = response.content.decode()
    assert response.status_code == 422
    assert "2 things to correct" in html
    assert 'href="#tokens"' in html
    assert 'href="#global_batch_tokens"' in html
    assert re.search(r'id="tokens" name="tokens" value="many"[^>]*aria-invalid="true"', html)
    assert "nearest: 999424 or 1007616" in html
    assert 'value="llama-3-8b"' in html
    assert PlanRun.objects.count() == 0


def test_unreadable_config_stores_nothing_and_other_faults_still_show(browser: Callable[..., Client]) -> None:
    sent = {"model_kind": "config", "config": "{", "tokens": "many", "sequence_length": "8192"}
    response = browser("ada").post(reverse("web:plan-new"), sent)
    html = response.content.decode()
    assert response.status_code == 422
    assert "not JSON in line 1" in html
    assert 'href="#config"' in html
    assert 'href="#tokens"' in html
    assert PlanRun.objects.count() == 0


@pytest.mark.usefixtures("quick_search", "rings")
def test_right_form_becomes_a_plan_and_leads_to_its_page(browser: Callable[..., Client]) -> None:
    sent = {
        "model_kind": "catalog",
        "model": "llama-3-8b",
        "tokens": "15e9",
        "sequence_length": "8192",
        "objective": "time",
    }
    response = browser("ada").post(reverse("web:plan-new"), sent)
    run = PlanRun.objects.get()
    assert response.status_code == 302
    assert response["Location"] == reverse("web:plan", args=[run.pk])
    assert json.loads(run.request)["workload"]["tokens"] == 15_000_000_000
    assert run.owner is not None


def test_running_plan_polls_and_the_last_poll_brings_the_answer(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    run = stored(PlanStatus.RUNNING, lease=uuid4(), candidates_done=1204, candidates_total=2072)
    client = browser("ada")
    html = page(client, reverse("web:plan", args=[run.pk]))
    assert f'hx-get="{reverse("web:plan-progress", args=[run.pk])}"' in html
    assert re.search(r'<noscript>\s*<meta http-equiv="refresh"', html)
    polled = page(client, reverse("web:plan-progress", args=[run.pk]))
    assert "1,204 of 2,072 candidates" in polled
    assert 'max="2072" value="1204"' in polled
    PlanRun.objects.update(
        status=PlanStatus.SUCCEEDED, answer=json.dumps(answers.plan_answer()), finished_at=timezone.now()
    )
    last = client.get(reverse("web:plan-progress", args=[run.pk]))
    assert last.status_code == 286
    assert last["HX-Retarget"] == "#plan"
    assert "Fits on 16" in text_of(last.content.decode())


@pytest.mark.parametrize(
    ("status", "more", "words"),
    [
        (PlanStatus.QUEUED, {}, "Waiting for a worker."),
        (PlanStatus.CANCELLED, {"candidates_done": 812, "candidates_total": 2072}, "Cancelled after 812 of 2,072"),
        (PlanStatus.FAILED, {"error_detail": "5 workers were lost"}, "5 workers were lost"),
    ],
)
def test_plan_without_an_answer_says_where_it_stands(
    browser: Callable[..., Client], stored: Callable[..., PlanRun], status: str, more: dict[str, Any], words: str
) -> None:
    run = stored(status, **more)
    assert words in text_of(page(browser("ada"), reverse("web:plan", args=[run.pk])))


def test_cancel_ends_the_plan(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    run = stored(PlanStatus.QUEUED)
    response = browser("ada").post(reverse("web:plan-cancel", args=[run.pk]))
    run.refresh_from_db()
    assert response.status_code == 302
    assert run.status == PlanStatus.CANCELLED


def test_infeasible_plan_names_the_closest_candidate_and_its_miss(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    run = stored(PlanStatus.INFEASIBLE, answer=answers.infeasible_answer())
    seen = text_of(page(browser("ada"), reverse("web:plan", args=[run.pk])))
    assert "Does not fit: no way to train llama-3-8b on up to 64 × H100 SXM5 80 GB or H200 SXM 141 GB." in seen
    assert "The closest of 2,072 candidates needs 67.7 GiB of 64.0 GiB per GPU." in seen
    assert "Nearest misses" in seen
    assert "What would work" in seen


def test_options_are_sorted_by_what_the_address_asks(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    client, path = browser("ada"), reverse("web:plan", args=[stored(answer=answers.plan_answer()).pk])

    def ranks(sort: str) -> list[str]:
        return re.findall(r'<tr id="o(\d+)"', page(client, f"{path}?sort={sort}"))

    assert ranks("rank") == ["1", "2", "3", "4", "5"]
    assert ranks("hours") == ["5", "3", "2", "4", "1"]
    assert ranks("-usd") == ["5", "4", "3", "2", "1"]
    assert ranks("nonsense") == ["1", "2", "3", "4", "5"]
    assert 'aria-sort="descending"' in page(client, f"{path}?sort=-usd")


def test_option_page_shows_that_option_and_an_unknown_rank_is_404(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    client, run = browser("ada"), stored(answer=answers.plan_answer())
    seen = text_of(page(client, reverse("web:plan-option", args=[run.pk, 3])))
    assert "Fits on 64 × H100 SXM5 80 GB: 9.6 hours, $1,841 for the whole job." in seen
    assert client.get(reverse("web:plan-option", args=[run.pk, 99])).status_code == 404


def test_list_filters_by_status_and_says_when_it_is_empty(
    browser: Callable[..., Client], stored: Callable[..., PlanRun]
) -> None:
    client = browser("ada")
    assert "No plans yet" in page(client, reverse("web:plans"))
    stored(answer=answers.plan_answer())
    assert "36.2 h" in text_of(page(client, reverse("web:plans")))
    assert "No plan of this kind" in page(client, f"{reverse('web:plans')}?status=failed")


def test_theme_is_kept_in_a_cookie_and_leads_only_back_into_the_site(client: Client) -> None:
    response = client.post(reverse("web:theme"), {"theme": "dark", "next": "https://elsewhere.example/"})
    assert response["Location"] == "/"
    assert 'data-theme="dark"' in page(client, reverse("web:login"))
    client.post(reverse("web:theme"), {"theme": '"><script>', "next": "/"})
    assert 'data-theme="dark"' in page(client, reverse("web:login"))


def test_sign_in_says_what_is_wrong_without_saying_which(client: Client, person: Callable[..., User]) -> None:
    person("ada")
    response = client.post(reverse("web:login"), {"username": "ada", "password": "wrong"})
    assert "do not belong together" in response.content.decode()


def test_page_stays_small(browser: Callable[..., Client], stored: Callable[..., PlanRun]) -> None:
    answer = answers.plan_answer()
    answer["points"] = [point | {"rank": None} for point in answer["points"]] * 20
    html = page(browser("ada"), reverse("web:plan", args=[stored(answer=answer).pk]))
    assert len(html.encode()) <= 150_000


def test_browsers_find_the_mark_where_they_look_for_it(client: Client) -> None:
    answer = client.get("/favicon.ico")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/static/planner/mark")
