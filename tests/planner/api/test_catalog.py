"""The catalog's doors: filters that filter, pages that lose nothing, and imports that keep text as text."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command

from planner.specs.models import ModelSpec
from tests.people import Caller

pytestmark = pytest.mark.django_db

CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 256,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
IMPORT = "/api/v1/models/import/"
BAD_CHANGES: dict[str, Any] = {
    "no layers": {"num_hidden_layers": 0},
    "a billion layers": {"num_hidden_layers": 10**9},
    "text for a size": {"hidden_size": "32"},
    "true for a count": {"num_attention_heads": True},
    "half a head": {"num_attention_heads": 1.5},
    "a list": {"vocab_size": []},
    "heads do not divide": {"num_attention_heads": 3},
}


@pytest.fixture
def catalog(db: None) -> None:
    call_command("load_catalog", verbosity=0)


def walk(owner: Caller, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while path:
        page = owner.get(path).json()
        rows += page["results"]
        following = urlsplit(page["next"] or "")
        path = f"{following.path}?{following.query}" if following.path else ""
    return rows


@pytest.mark.usefixtures("catalog")
def test_pages_show_every_row_once_and_filters_filter(owner: Caller) -> None:
    for name in ("accelerators", "node-types", "offers", "models", "optimizers"):
        whole = walk(owner, f"/api/v1/{name}/?page_size=500")
        assert walk(owner, f"/api/v1/{name}/?page_size=37") == whole
        assert len(whole) > 10
    large = walk(owner, "/api/v1/accelerators/?min_memory_bytes=100000000000&vendor=NVIDIA&page_size=500")
    assert large
    assert all(row["memory_bytes"] >= 100_000_000_000 and row["vendor"] == "nvidia" for row in large)


@pytest.mark.usefixtures("catalog")
def test_one_row_by_its_slug_in_any_case(owner: Caller) -> None:
    assert owner.get("/api/v1/accelerators/H100-SXM5-80GB/").json()["slug"] == "h100-sxm5-80gb"
    model = owner.get("/api/v1/models/llama-2-7b/").json()
    assert model["exact_parameters"] == 6_738_415_616
    assert "config" in model
    assert owner.get("/api/v1/optimizers/adamw/").json()["slots"]
    assert owner.get("/api/v1/accelerators/h100/").status_code == 404


@pytest.mark.parametrize(
    "query", ["cursor=AAAA", "cursor=%00", "cursor=" + "A" * 3000, "cursor=W10",
              "cursor=W10=", "cursor=WyJhIiwiYiJd", "min_memory_bytes=-1",
              "min_memory_bytes=x",
              "min_memory_bytes=" + "9" * 400, "search=x", "ordering=-password", "page=1"]
)  # fmt: skip
def test_a_query_that_means_nothing_is_a_problem(owner: Caller, query: str) -> None:
    answer = owner.get(f"/api/v1/accelerators/?{query}")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


def test_an_import_is_stored_once_and_private(owner: Caller, stranger: Caller) -> None:
    first = owner.post(IMPORT, CONFIG)
    again = owner.post(IMPORT, CONFIG)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert re.fullmatch(r"llama-[0-9a-f]{10}", first.json()["slug"])
    assert owner.get(first["Location"]).json()["config"] == CONFIG
    assert stranger.get(first["Location"]).status_code == 404
    named = owner.post(f"{IMPORT}?name=Ours-1", CONFIG)
    assert (named.status_code, named.json()["slug"]) == (201, "ours-1")
    taken = owner.post(f"{IMPORT}?name=ours-1", {**CONFIG, "vocab_size": 512})
    assert taken.status_code == 409


@pytest.mark.parametrize("text", ["../../etc/passwd", "<script>", "a\n#SBATCH x", "$(id)", "x" * 5000])
def test_texts_of_a_config_stay_texts(owner: Caller, text: str) -> None:
    answer = owner.post(IMPORT, {**CONFIG, "_name_or_path": text, "name": text, "slug": text, "auto_map": {"A": text}})
    assert answer.status_code == 201
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", answer.json()["slug"])
    assert owner.post(f"{IMPORT}?name=..%2Fx", CONFIG).status_code == 422


@pytest.mark.parametrize("name", BAD_CHANGES)
def test_a_config_nobody_should_believe(owner: Caller, name: str) -> None:
    body = owner.post(IMPORT, {**CONFIG, **BAD_CHANGES[name]})
    assert body.status_code == 422
    (changed,) = BAD_CHANGES[name]
    pointers = [error["pointer"] for error in body.json()["errors"]]
    assert any(pointer.startswith(f"/{changed}") or pointer == "" for pointer in pointers)
    assert not ModelSpec.objects.filter(origin="imported").exists()
