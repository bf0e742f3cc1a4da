"""Shipped models counted to the unit, found by the names people use, imported from a config.json."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from accounting.model import model_from_architecture, model_from_config
from accounting.naming import NameLookupError
from hardware.revision import current_revision
from planner.errors import Conflict, InvalidRequest
from planner.specs.loader import models_load
from planner.specs.models import ModelSpec, Origin
from planner.specs.rows import SHIPPED_MODELS, read_models
from planner.specs.selectors import find_model, visible_models
from planner.specs.services import model_spec_import
from planner.teams.models import Team
from planner.teams.services import team_create

ROWS = read_models()
CONFIG = json.loads((SHIPPED_MODELS / "hf_configs" / "real_llama-3.2-1b.json").read_text("utf-8"))


@pytest.fixture
def loaded(db: None) -> None:
    models_load()


@pytest.fixture
def team(db: None) -> Team:
    return team_create(slug="ours", name="Ours")


def test_every_catalog_model_is_there_with_a_source() -> None:
    assert len(ROWS) == 161
    assert len({row["slug"] for row in ROWS}) == 161
    assert all(row["source"] and row["confidence"] for row in ROWS)


def test_no_alias_is_taken_twice() -> None:
    slugs = [row["slug"] for row in ROWS]
    aliases = [alias for row in ROWS for alias in row["aliases"]]
    assert len(set(aliases)) == len(aliases)
    assert not set(aliases) & set(slugs)


@pytest.mark.parametrize("row", ROWS, ids=[row["slug"] for row in ROWS])
def test_description_counts_exactly(row: dict[str, Any]) -> None:
    if row["config"] is not None:
        assert model_from_config(row["config"]).parameters == row["exact_parameters"]
    if row["slug"] != "clip-vit-large-patch14":  # two towers, which the architecture fields cannot say
        assert model_from_architecture(row["architecture"]).parameters == row["exact_parameters"]


def test_stored_models_are_clean_and_know_their_slug(loaded: None) -> None:
    for spec in ModelSpec.objects.all():
        spec.full_clean(validate_unique=False, validate_constraints=False)
        assert spec.model().slug == spec.slug


def test_second_load_changes_nothing_and_edits_are_kept(loaded: None) -> None:
    before = current_revision()
    ModelSpec.objects.filter(slug="llama-3-8b").update(note="ours", origin=Origin.EDITED)
    report = models_load()
    assert (report.writes, report.unchanged, report.kept_edited) == (0, 160, ["llama-3-8b: note"])
    assert current_revision() == before
    assert ModelSpec.objects.get(slug="llama-3-8b").note == "ours"


def test_shipped_row_is_brought_up_to_date(loaded: None) -> None:
    before = current_revision()
    ModelSpec.objects.filter(slug="llama-3-8b").update(note="old")
    assert models_load().changed == ["llama-3-8b: note"]
    assert current_revision() > before


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("llama-3-8b", "llama-3-8b"),
        ("LLAMA-2-7B", "llama-2-7b"),
        ("llama-2-70b", "llama-2-70b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("llama3.1-405b", "llama-3.1-405b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"),
        ("mistral-7b", "mistral-7b-v0.1"),
        ("mixtral-8x7b", "mixtral-8x7b"),
        ("gpt-3-175b", "gpt3-175b"),
        ("t5_v1.1_base", "t5-v1_1-base"),
        ("EleutherAI/gpt-j-6b", "gpt-j-6b"),
        ("google/gemma-2-9b", "gemma-2-9b"),
    ],
)
def test_model_is_found(loaded: None, text: str, slug: str) -> None:
    assert find_model(text, None).slug == slug


@pytest.mark.parametrize(
    ("text", "code", "candidate"),
    [("llama-3", "ambiguous", "llama-3-8b"), ("lama-2-7b", "unknown", "llama-2-7b"), ("", "unknown", "")],
)
def test_other_names_list_candidates(loaded: None, text: str, code: str, candidate: str) -> None:
    with pytest.raises(NameLookupError) as caught:
        find_model(text, None)
    assert caught.value.code == code
    assert caught.value.kind == "model"
    assert any(candidate in slug for slug in caught.value.candidates)
    assert all(slug in visible_models(None) for slug in caught.value.candidates)


def test_imported_model_is_its_team_s_alone(loaded: None, team: Team) -> None:
    before = current_revision()
    spec = model_spec_import(config=CONFIG, name="Our-1B", team=team, source="internal")
    assert (spec.slug, spec.exact_parameters, spec.origin) == ("our-1b", 1_235_814_400, Origin.IMPORTED)
    assert find_model("our-1b", team) == spec
    assert current_revision() == before
    for other in (None, team_create(slug="theirs", name="Theirs")):
        with pytest.raises(NameLookupError):
            find_model("our-1b", other)


def test_team_s_own_model_stands_before_the_shipped_one(loaded: None, team: Team) -> None:
    spec = model_spec_import(config=CONFIG, name="llama-3-8b", team=team, source="")
    assert find_model("llama-3-8b", team) == spec
    assert find_model("llama-3-8b", None).exact_parameters == 8_030_261_248


def test_import_for_everybody_is_a_new_revision(loaded: None) -> None:
    before = current_revision()
    model_spec_import(config=CONFIG, name="shared-1b", team=None, source="x")
    assert current_revision() == before + 1


def test_name_that_is_taken_is_a_conflict(loaded: None, team: Team) -> None:
    model_spec_import(config=CONFIG, name="our-1b", team=team, source="")
    with pytest.raises(InvalidRequest) as caught:
        model_spec_import(config=CONFIG, name="our-1b", team=team, source="")
    assert (caught.value.http_status, caught.value.faults[0].pointer) == (409, "/name")


@pytest.mark.parametrize("name", ["import", "Reading"])
def test_a_name_that_is_an_address_is_refused(team: Team, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        model_spec_import(config=CONFIG, name=name, team=team, source="")
    assert [(fault.pointer, fault.code) for fault in refused.value.faults] == [("/name", "reserved")]


def test_all_faults_of_an_import_come_at_once(team: Team) -> None:
    bad = {**CONFIG, "hidden_size": "wide", "num_hidden_layers": -1}
    with pytest.raises(InvalidRequest) as caught:
        model_spec_import(config=bad, name="../etc", team=team, source="x" * 301)
    pointers = {fault.pointer for fault in caught.value.faults}
    assert {"/name", "/source", "/config/hidden_size", "/config/num_hidden_layers"} <= pointers


def test_a_team_keeps_so_many_models_of_so_much_text(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest) as caught:
        model_spec_import(config={**CONFIG, "ignore": ["x" * 900] * 200}, name="long", team=team, source="")
    assert [(fault.pointer, fault.code) for fault in caught.value.faults] == [("/config", "too_long")]
    monkeypatch.setattr("planner.specs.services.MAX_MODELS", 2)
    for name in ("first", "second"):
        model_spec_import(config=CONFIG, name=name, team=team, source="")
    with pytest.raises(Conflict):
        model_spec_import(config=CONFIG, name="third", team=team, source="")
    ModelSpec.objects.filter(slug="first").update(retired=True)
    assert model_spec_import(config=CONFIG, name="third", team=team, source="")


def test_wrong_count_is_refused_with_the_right_one(loaded: None) -> None:
    spec = ModelSpec.objects.get(slug="llama-3-8b")
    spec.exact_parameters += 1
    with pytest.raises(ValidationError, match="8,030,261,248"):
        spec.full_clean()


def test_admin_edit_is_a_new_revision(loaded: None, client: Client) -> None:
    client.force_login(User.objects.create_superuser("keeper"))
    spec, before = ModelSpec.objects.get(slug="llama-3-8b"), current_revision()
    page = reverse("admin:planner_modelspec_change", args=[spec.pk])
    form = client.get(page).context["adminform"].form
    data = {
        name: form.fields[name].prepare_value(form.get_initial_for_field(form.fields[name], name))
        for name in form.fields
    }
    data = {name: value for name, value in data.items() if value not in (None, False)}
    answer = client.post(page, {**data, "note": "checked"}, follow=True)
    assert f"Revision {before + 1}" in answer.content.decode()
    spec.refresh_from_db()
    assert (spec.note, spec.origin) == ("checked", Origin.EDITED)
    assert client.get(reverse("admin:planner_modelspec_changelist"), {"q": "llama"}).status_code == 200
