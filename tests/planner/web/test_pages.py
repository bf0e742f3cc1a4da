"""The catalog's, the team's and the explain pages: their numbers are the API's, strangers see nothing, lists obey the
address."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounting.facts.optimizers import OPTIMIZERS
from accounting.units import GIB
from hardware.loader import catalog_load
from hardware.models import Accelerator, Offer
from planner.plans.models import PlanRun, PlanStatus
from planner.plans.running import plan_execute
from planner.plans.services import plan_create
from planner.specs.loader import models_load
from planner.specs.models import ModelSpec
from planner.teams.models import Role, Team
from planner.web import explain
from planner.web.explain_inputs import DEPENDS_ON, INPUTS
from planner.web.explain_totals import TOTALS
from tests.planner.web import answers
from tests.planner.web.test_views import browser, page, text_of

__all__ = ["browser"]
pytestmark = pytest.mark.django_db

PLAN: dict[str, Any] = {
    "model": "llama-3-8b",
    "workload": {"tokens": 15_000_000_000, "sequence_length": 8192, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "max_count": 16},
    "engines": ["fsdp2"],
    "search": {"tp": [1, 2], "pp": [1], "micro_batch_sizes": [1], "recompute": ["none"]},
    "options": 3,
}


@pytest.fixture
def loaded(team: Team) -> None:
    catalog_load()
    models_load()


@pytest.fixture
def planned(loaded: None, team: Team, rings: list[Any]) -> PlanRun:
    run, _ = plan_create(team=team, user=None, payload=PLAN, enqueue=False)
    assert plan_execute(plan_id=run.pk)
    run.refresh_from_db()
    assert run.status == PlanStatus.SUCCEEDED
    return run


def test_every_bucket_of_a_real_plan_explains_itself_to_the_byte(
    browser: Callable[..., Client], planned: PlanRun
) -> None:
    client = browser("ada")
    best = json.loads(planned.answer)["recommendation"]
    buckets = {name: size for name, size in best["answer"]["memory"]["by_bucket"].items() if size}
    assert len(buckets) > 5
    phase = best["answer"]["memory"]["peak_phase"]
    for bucket, size in buckets.items():
        html = page(client, reverse("web:explain", args=[planned.pk, 1, bucket]))
        assert f"= {size:,}&nbsp;B = " in html.replace("\u00a0", "&nbsp;"), bucket
        lines = [
            line
            for line in best["answer"]["memory"]["lines"]
            if line["bucket"] == bucket and line["device"] and line["bytes_by_phase"][phase]
        ]
        assert sum(line["bytes_by_phase"][phase] for line in lines) == size
        for line in lines:
            assert line["formula"] in html
    assert 'aria-current="true"' in html


def test_explanation_comes_as_a_panel_to_htmx_and_says_what_moves_it(
    browser: Callable[..., Client], planned: PlanRun
) -> None:
    path = reverse("web:explain", args=[planned.pk, 1, "activations"])
    answer = browser("ada").get(path, headers={"HX-Request": "true"})
    seen = text_of(answer.content.decode())
    assert "<html" not in answer.content.decode()
    assert "HX-Request" in answer["Vary"]
    assert re.search(r"Recompute: full \u2212[\d.]+ GiB", seen)
    assert "hidden size 4,096 llama-3-8b" in seen
    assert "sequence, tokens 8,192 option 1" in seen


def test_explain_refuses_what_is_not_there(browser: Callable[..., Client], planned: PlanRun, other_team: Team) -> None:
    client = browser("ada")
    for rank, subject in ((1, "nonsense"), (99, "activations"), (1, "master_weights")):
        assert client.get(reverse("web:explain", args=[planned.pk, rank, subject])).status_code == 404
    stranger = browser("eve", of=other_team)
    assert stranger.get(reverse("web:explain", args=[planned.pk, 1, "activations"])).status_code == 404
    assert stranger.get(reverse("web:exports-first", args=[planned.pk, 1])).status_code == 404
    assert stranger.get(f"{reverse('web:compare')}?with={planned.pk}.1").status_code == 404


def test_every_input_of_every_subject_exists() -> None:
    named = {name for names in DEPENDS_ON.values() for name in names.split()}
    assert named <= set(INPUTS)
    assert named == set(INPUTS)
    assert set(explain.INTRODUCTIONS) == set(DEPENDS_ON)
    assert set(explain.subjects()) == {*DEPENDS_ON, *TOTALS}


def test_rules_are_split_into_formula_life_and_source() -> None:
    body, alive, source = explain.read_rule(
        "One.\n\n    bytes = a / b\n    twice\n\n    Alive: always. Source: seen\n    twice."
    )
    assert body == "bytes = a / b\ntwice"
    assert alive == "always"
    assert source == "seen twice."


def test_random_configurations_show_the_apis_own_numbers(
    browser: Callable[..., Client], loaded: None, caller: Callable[..., Any]
) -> None:
    client, api, chance = browser("ada"), caller("bob"), random.Random(8)
    for _ in range(6):
        asked = {
            "model": chance.choice(["llama-3-8b", "llama-2-7b", "mistral-7b-v0.1", "gpt2"]),
            "accelerator": chance.choice(["h100-sxm5-80gb", "a100-sxm4-80gb", "h200-sxm-141gb"]),
            "count": str(chance.choice([1, 8, 16])),
            "engine": "fsdp2",
            "zero_stage": chance.choice(["2", "3"]),
            "sequence_length": str(chance.choice([512, 1024])),
            "recompute": chance.choice(["none", "full"]),
        }
        found = client.get(reverse("web:calculator"), asked)
        assert found.status_code == 200
        request = found.context["page"].copy.json
        memory = api.post("/api/v1/estimates/", json.loads(request)).json()["memory"]
        seen = text_of(found.content.decode())
        assert f"{memory['device_bytes']:,} bytes" in found.content.decode().replace("\u00a0", " ")
        assert f"{memory['peak_allocated_bytes']:,} bytes" in found.content.decode().replace("\u00a0", " ")
        for size in filter(None, memory["by_bucket"].values()):
            assert f"{size / GIB:.2f}" in seen


def test_live_calculator_gives_only_the_answer_and_its_faults(browser: Callable[..., Client], loaded: None) -> None:
    client = browser("ada")
    asked = {"model": "llama-3-8b", "accelerator": "h100-sxm5-80gb", "count": "8"}
    live = client.get(reverse("web:calculator"), asked, headers={"HX-Request": "true"})
    whole = client.get(reverse("web:calculator"), asked)
    assert live.status_code == 200
    assert "<html" not in live.content.decode()
    assert live.content.decode().strip() in whole.content.decode()
    wrong = client.get(reverse("web:calculator"), asked | {"tp": "3"}, headers={"HX-Request": "true"})
    assert wrong.status_code == 200
    assert "to correct" in wrong.content.decode()
    back = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert "<html" in client.get(reverse("web:calculator"), asked, headers=back).content.decode()


def test_pasted_config_is_read_exactly_and_faults_are_named(browser: Callable[..., Client], loaded: None) -> None:
    client = browser("ada")
    config = ModelSpec.objects.get(slug="llama-3.1-8b").config
    good = text_of(client.post(reverse("web:model-reading"), {"config": json.dumps(config)}).content.decode())
    assert "8,030,261,248" in good
    assert "Same shape as llama-3.1-8b" in good
    for typed in ("{", "[]", '{"model_type": "llama"}', "[" * 5000, '{"a": NaN}'):
        bad = client.post(reverse("web:model-reading"), {"config": typed})
        assert bad.status_code == 200
        assert "cannot be read yet" in bad.content.decode()


def test_config_is_imported_for_the_team_only(browser: Callable[..., Client], loaded: None, other_team: Team) -> None:
    config = ModelSpec.objects.get(slug="llama-3.1-8b").config
    sent = {"name": "our-8b", "config": json.dumps(config), "source": "a colleague"}
    answer = browser("ada").post(reverse("web:model-import"), sent)
    assert answer.status_code == 201
    assert "8,030,261,248" in answer.content.decode()
    path = reverse("web:model", args=["our-8b"])
    assert browser("bob").get(path).status_code == 200
    assert browser("eve", of=other_team).get(path).status_code == 404
    again = browser("cleo").post(reverse("web:model-import"), sent)
    assert again.status_code == 422
    assert "there is a model" in again.content.decode()
    assert browser("vic", Role.VIEWER).post(reverse("web:model-import"), sent).status_code == 403


def test_parts_of_every_shipped_model_sum_to_its_count(loaded: None) -> None:
    from planner.web.model_reading import parts_of  # noqa: PLC0415 - beside its only use

    for spec in ModelSpec.objects.all():
        model = spec.model()
        counted = sum(int(part.parameters.replace(",", "")) for part in parts_of(model))
        assert counted == model.parameters == spec.exact_parameters, spec.slug


def test_hardware_list_shows_the_snapshots_numbers_and_obeys_the_address(
    browser: Callable[..., Client], loaded: None, caller: Callable[..., Any]
) -> None:
    client = browser("ada")
    h100 = caller("bob").get("/api/v1/accelerators/h100-sxm5-80gb/").json()
    seen = text_of(page(client, f"{reverse('web:hardware')}?find=h100-sxm5-80gb"))
    assert "79.6 GiB" in seen
    assert f"{h100['memory_bytes'] / 1e9:,.0f} GB" in seen
    cheapest = min(
        offer.usd_per_hour / offer.accelerator_count
        for offer in Offer.objects.filter(accelerator_id="h100-sxm5-80gb", pricing_kind="on-demand")
    )
    assert f"${float(cheapest):.4f}".rstrip("0") in seen

    def slugs(query: str) -> list[str]:
        return re.findall(r"<small>([a-z0-9.-]+)</small></th>", page(client, f"{reverse('web:hardware')}?{query}"))

    sizes = dict(Accelerator.objects.values_list("slug", "memory_bytes"))
    known = [sizes[slug] for slug in slugs("sort=-memory") if sizes[slug] is not None]
    assert known == sorted(known, reverse=True)
    assert set(slugs("vendor=amd")) == set(Accelerator.objects.filter(vendor="amd").values_list("slug", flat=True))
    assert all((sizes[slug] or 0) >= 141 * GIB * 0.93 for slug in slugs("least=141"))
    assert "The largest of all is" in page(client, f"{reverse('web:hardware')}?least=9999")
    assert len(slugs("sort=nonsense&vendor=%01&least=x")) in (0, len(sizes))
    refused = client.get(f"{reverse('web:hardware')}?vendor=%00")
    assert refused.status_code == 400
    assert "Nothing was changed" in refused.content.decode()


def test_columns_are_chosen_in_the_address_and_kept(browser: Callable[..., Client], loaded: None) -> None:
    client = browser("ada")
    path = reverse("web:hardware")
    assert "sort=power" not in re.sub(r"<details>.*?</details>", "", page(client, path))
    assert "sort=power" in page(client, f"{path}?columns=memory,power")
    kept = page(client, path)
    assert "sort=power" in kept
    assert "sort=bf16" not in kept


def test_list_comes_as_csv_with_unrounded_numbers(browser: Callable[..., Client], loaded: None) -> None:
    answer = browser("ada").get(f"{reverse('web:hardware')}?format=csv&find=h100-sxm5-80gb")
    assert answer["Content-Type"].startswith("text/csv")
    head, row, *_ = answer.content.decode().splitlines()
    assert head.startswith("GPU,Memory,")
    assert str(Accelerator.objects.get(slug="h100-sxm5-80gb").memory_bytes) in row


def test_edited_price_is_a_step_of_the_price_history(browser: Callable[..., Client], loaded: None) -> None:
    offer = Offer.objects.get(provider="aws", instance_name="p5.48xlarge", pricing_kind="on-demand")
    offer.usd_per_hour, offer.price_date = 40, timezone.localdate()
    offer.save()
    seen = text_of(page(browser("ada"), reverse("web:device", args=["h100-sxm5-80gb"])))
    assert "aws 20 Jul 2026 $6.88" in seen
    assert "$5.00" in seen


def test_every_device_node_and_optimizer_page_opens(browser: Callable[..., Client], loaded: None) -> None:
    client = browser("ada")
    for slug in Accelerator.objects.values_list("slug", flat=True)[::9]:
        assert client.get(reverse("web:device", args=[slug])).status_code == 200
    for name in list(OPTIMIZERS)[::25]:
        assert client.get(reverse("web:optimizer", args=[name])).status_code == 200
    assert client.get(reverse("web:node", args=["aws-p5-48xlarge"])).status_code == 200
    for path in ("web:device", "web:node", "web:model", "web:optimizer"):
        assert client.get(reverse(path, args=["no-such"])).status_code == 404


def test_optimizer_bytes_are_the_estimates_own(browser: Callable[..., Client], loaded: None) -> None:
    seen = text_of(page(browser("ada"), f"{reverse('web:optimizer', args=['adamw'])}?model=llama-3-8b"))
    assert "59.83 GiB" in seen
    assert f"{8 * answers.PARAMETERS / GIB:.2f}" == "59.83"


def another_session(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def test_columns_of_options_are_chosen_and_kept_with_the_account(
    browser: Callable[..., Client], planned: PlanRun
) -> None:
    path = reverse("web:plan", args=[planned.pk])
    client = browser("ada")
    assert 'data-l="Provider"' not in page(client, path)
    chosen = page(client, f"{path}?column=hours&column=provider&sort=-hours")
    assert 'data-l="Provider"' in chosen
    assert 'data-l="MFU"' not in chosen
    assert re.search(r'aria-sort="descending"[^>]*><a href="[^"]*">Hours', chosen)
    again = page(another_session("ada"), path)
    assert 'data-l="Provider"' in again
    assert 'data-l="MFU"' not in again
    assert 'data-l="MFU"' in page(browser("bob"), path)
    rows = client.get(f"{path}?format=csv").content.decode().splitlines()
    assert rows[0] == "GPUs,Hours,Provider"
    hours = json.loads(planned.answer)["options"][0]["hours"]
    assert repr(hours) in rows[1]


def test_single_letters_are_turned_off_for_the_account(browser: Callable[..., Client], team: Team) -> None:
    client, path = browser("ada"), reverse("web:keys")
    assert 'data-letters="off"' not in page(client, path)
    assert client.post(reverse("web:keys-set"), {"letters": "off"}).status_code == 302
    assert 'data-letters="off"' in page(client, path)
    assert 'data-letters="off"' in page(another_session("ada"), reverse("web:plans"))
    assert 'data-letters="off"' not in page(browser("bob"), reverse("web:plans"))
