"""Every address of the API times every kind of caller: a door without a row here fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.urls import URLPattern, get_resolver, path

from planner.api.estimates import EstimateView
from planner.ops.models import AuditEvent
from planner.plans.running import plan_execute
from planner.pools.models import Pool
from planner.specs.models import Confidence, ModelSpec
from planner.teams.models import ApiToken, Role, Team
from planner.webhooks.models import Webhook
from tests.people import PLAN, Caller, quiet_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick_search", "rings")]

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 256,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
POOL = {
    "slug": "hall", "accelerator": "h100-sxm5-80gb", "node_type": "aws-p5-48xlarge", "count": 16,
    "usd_per_device_hour": 1.5,
}  # fmt: skip
BODIES = ("POST", "PUT", "PATCH")
WRITES_NOTHING = ("estimates", "estimates-max", "estimates-bulk")
CALLERS = ("anonymous", "bad token", "stranger", "viewer", "planner", "catalog-editor", "admin")
PUBLIC = dict.fromkeys(CALLERS, 200)
READ = {**PUBLIC, "anonymous": 401, "bad token": 401}
MINE = {**READ, "stranger": 404}
WRITE = {**READ, "stranger": 0, "viewer": 403}
"""0: the stranger's own team answers, nothing of ours is touched."""
ADMIN_ONLY = {**READ, **dict.fromkeys(CALLERS[2:-1], 403)}
ONE_TOKEN = {**READ, **dict.fromkeys(CALLERS[2:-1], 404)}
"""Of another person: only an admin sees it."""

ROWS: dict[tuple[str, str], dict[str, int]] = {
    ("schema", "GET"): PUBLIC,
    ("docs", "GET"): PUBLIC,
    ("estimates", "POST"): {**READ, **dict.fromkeys(CALLERS[2:], 422)},
    ("estimates-max", "POST"): {**READ, **dict.fromkeys(CALLERS[2:], 422)},
    ("plans", "GET"): READ,
    ("plans", "POST"): {**WRITE, **dict.fromkeys(("planner", "catalog-editor", "admin"), 202)},
    ("plan", "GET"): MINE,
    ("plan", "DELETE"): {**MINE, "viewer": 403, **dict.fromkeys(("planner", "catalog-editor", "admin"), 409)},
    ("plans-compare", "GET"): MINE,
    ("plan-rerun", "POST"): {**MINE, "viewer": 403, **dict.fromkeys(("planner", "catalog-editor", "admin"), 202)},
    ("plan-export", "GET"): dict.fromkeys(CALLERS, 404) | {"anonymous": 401, "bad token": 401},
    ("validations", "GET"): READ,
    ("validations", "POST"): {**WRITE, **dict.fromkeys(("planner", "catalog-editor", "admin"), 422)},
    ("validation", "GET"): dict.fromkeys(CALLERS, 404) | {"anonymous": 401, "bad token": 401},
    ("validation", "DELETE"): {**dict.fromkeys(CALLERS, 404), "anonymous": 401, "bad token": 401, "viewer": 403},
    ("validation-statistics", "GET"): READ,
    ("validation-calibrations", "GET"): READ,
    ("estimates-bulk", "POST"): READ,
    ("pools", "GET"): READ,
    ("pools", "POST"): {**WRITE, "planner": 403, "catalog-editor": 201, "admin": 409},
    ("pool", "GET"): MINE,
    ("pool", "PATCH"): {**MINE, "stranger": 403, "viewer": 403, "planner": 403, "catalog-editor": 428, "admin": 428},
    ("pool", "DELETE"): {**MINE, "stranger": 403, "viewer": 403, "planner": 403, "catalog-editor": 428, "admin": 428},
    ("webhooks", "GET"): READ,
    ("webhooks", "POST"): {**ADMIN_ONLY, "stranger": 403, "admin": 201},
    ("webhook", "GET"): MINE,
    ("webhook", "PATCH"): {**ADMIN_ONLY, "admin": 428},
    ("webhook", "DELETE"): {**ADMIN_ONLY, "admin": 428},
    ("webhook-secret", "POST"): ADMIN_ONLY,
    ("webhook-deliveries", "GET"): MINE,
    ("tokens", "GET"): READ,
    ("tokens", "POST"): {**READ, **dict.fromkeys(CALLERS[2:], 201)},
    ("token", "GET"): ONE_TOKEN,
    ("token", "DELETE"): {**ONE_TOKEN, "admin": 204},
    ("token-rotate", "POST"): {**ONE_TOKEN, "admin": 403},
    ("teams", "GET"): READ,
    ("team", "GET"): MINE,
    ("team", "PATCH"): {**ADMIN_ONLY, "admin": 428},
    ("team-member", "PUT"): ADMIN_ONLY,
    ("team-member", "DELETE"): {**ADMIN_ONLY, "admin": 204},
    ("audit", "GET"): ADMIN_ONLY,
    ("models-import", "GET"): dict.fromkeys(CALLERS, 404) | {"anonymous": 401, "bad token": 401},
    ("models-import", "POST"): {**WRITE, **dict.fromkeys(("planner", "catalog-editor", "admin"), 201)},
    ("accelerators", "GET"): READ,
    ("accelerators-row", "GET"): dict.fromkeys(CALLERS, 404) | {"anonymous": 401, "bad token": 401},
    ("node-types", "GET"): READ,
    ("node-types-row", "GET"): dict.fromkeys(CALLERS, 404) | {"anonymous": 401, "bad token": 401},
    ("offers", "GET"): READ,
    ("models", "GET"): READ,
    ("models-row", "GET"): MINE,
    ("optimizers", "GET"): READ,
    ("optimizers-row", "GET"): READ,
}


def doors(patterns: Iterable[object]) -> Iterator[tuple[str, str]]:
    """(name, method) of every view among URL patterns."""
    for pattern in patterns:
        assert isinstance(pattern, URLPattern)
        view = getattr(pattern.callback, "cls", None)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if (view is None and method == "GET") or hasattr(view, method.lower()):
                yield str(pattern.name), method


def served() -> list[object]:
    """What the resolver has under /api/v1/."""
    api = next(pattern for pattern in get_resolver().url_patterns if str(pattern.pattern) == "api/v1/")
    return list(api.url_patterns)


def test_every_door_has_a_row() -> None:
    assert set(doors(served())) == set(ROWS)


def test_a_new_door_is_noticed() -> None:
    new = path("new/", EstimateView.as_view(), name="new")
    assert set(doors([*served(), new])) - set(ROWS) == {("new", "POST")}


@pytest.fixture
def catalog(db: None) -> None:
    """Only where a door reads it: loading takes longer than everything else here."""
    call_command("load_catalog", verbosity=0)


@pytest.fixture
def addresses(owner: Caller, team: Team) -> dict[str, tuple[str, object]]:
    """Where each door is, and what is sent through it; rows of their own belong to `team`."""
    plan = owner.post("/api/v1/plans/", PLAN)["Location"]
    plan_id, second = plan.rstrip("/").rsplit("/", 1)[-1], owner.post("/api/v1/plans/", PLAN).json()["id"]
    plan_execute(plan_id=UUID(plan_id))
    Pool.objects.create(team=team, slug="lab", accelerator="h100-sxm5-80gb", node_type="aws-p5-48xlarge", count=8)
    Webhook.objects.create(team=team, slug="ours-hook", url="https://hooks.example.org/")
    token = ApiToken.objects.get(team=team, user__username="owner")
    ModelSpec.objects.create(
        slug="ours-model",
        team=team,
        name="Ours",
        config=CONFIG,
        exact_parameters=1,
        source="test",
        confidence=Confidence.LOW,
    )
    special: dict[str, tuple[str, object]] = {
        "estimates-max": ("estimates/max/", {}),
        "estimates": ("estimates/", {}),
        "plans": ("plans/", PLAN),
        "models-import": ("models/import/", CONFIG),
        "accelerators-row": ("accelerators/none/", None),
        "node-types-row": ("node-types/none/", None),
        "models-row": ("models/ours-model/", None),
        "optimizers-row": ("optimizers/adamw/", None),
        "plan": (plan.removeprefix("/api/v1/"), None),
        "plan-export": (f"plans/{second}/options/1/exports/slurm/", None),
        "validations": ("validations/", {}),
        "validation": (f"validations/{second}/", None),
        "validation-statistics": ("validations/statistics/", None),
        "validation-calibrations": ("validations/calibrations/", None),
        "plan-rerun": (f"plans/{second}/rerun/", None),
        "plans-compare": (f"plans/compare/?ids={plan_id},{second}", None),
        "estimates-bulk": ("estimates/bulk/", [{}]),
        "pools": ("pools/", POOL),
        "pool": ("pools/lab/", {"count": 9}),
        "webhooks": ("webhooks/", {"slug": "new", "url": "https://hooks.example.org/"}),
        "webhook": ("webhooks/ours-hook/", {"active": False}),
        "webhook-secret": ("webhooks/ours-hook/secret/", {}),
        "webhook-deliveries": ("webhooks/ours-hook/deliveries/", None),
        "tokens": ("tokens/", {"name": "new"}),
        "token": (f"tokens/{token.public_id}/", None),
        "token-rotate": (f"tokens/{token.public_id}/rotate/", {}),
        "team": ("teams/ours/", {"name": "Night"}),
        "team-member": ("teams/ours/members/owner/", {"role": "viewer"}),
    }
    return {name: special.get(name, (f"{name}/", None)) for name, _ in ROWS}


@pytest.fixture
def people(caller: Callable[..., Caller], stranger: Caller) -> dict[str, Caller]:
    roles = {role.value: caller(f"a {role.value}", role=role) for role in Role}
    nobody = {"anonymous": Caller(quiet_client(), ""), "bad token": Caller(quiet_client(), "plan_0")}
    return {**nobody, "stranger": stranger, **roles}


@pytest.mark.parametrize(("door", "method"), ROWS, ids=str)
def test_who_gets_what(
    request: pytest.FixtureRequest,
    people: dict[str, Caller],
    addresses: dict[str, tuple[str, object]],
    door: str,
    method: str,
) -> None:
    address, body = addresses[door]
    if door == "pools":
        request.getfixturevalue("catalog")
    for name, wanted in ROWS[door, method].items():
        if not wanted:
            continue
        deeds = AuditEvent.objects.count()
        answer = people[name].call(method, f"/api/v1/{address}", body if method in BODIES else None)
        again = 200 if wanted == 201 else wanted  # noqa: PLR2004 - the second import of the same config
        assert answer.status_code in (wanted, again), (name, answer.content[:300])
        if answer.status_code >= 400:  # noqa: PLR2004
            assert answer["Content-Type"] == "application/problem+json", name
        elif method != "GET" and door not in WRITES_NOTHING and answer.status_code != (200 if wanted == 201 else 0):
            assert AuditEvent.objects.count() > deeds, "who changed or ran what is written down"


def test_lists_show_own_rows_only(people: dict[str, Caller], addresses: dict[str, tuple[str, object]]) -> None:
    def listed(caller: Caller, path: str) -> str:
        return json.dumps(list(caller.get(f"/api/v1/{path}").json()["results"]))

    plan = addresses["plan"][0].split("/")[1]
    for name, seen in (("viewer", True), ("stranger", False)):
        assert (plan in listed(people[name], "plans/")) is seen
        assert ("lab" in listed(people[name], "pools/")) is seen
        assert ("ours-hook" in listed(people[name], "webhooks/")) is seen
        assert ("ours-model" in listed(people[name], "models/?page_size=500")) is seen


def test_a_foreign_model_is_unknown_and_not_among_the_nearest(
    people: dict[str, Caller], addresses: dict[str, tuple[str, object]]
) -> None:
    request = {"model": "ours-model", "hardware": {"accelerator": "none"}, "batch": {"sequence_length": 128}}
    faults: list[dict[str, Any]] = people["stranger"].post("/api/v1/estimates/", request).json()["errors"]
    model = next(fault for fault in faults if fault["pointer"] == "/model")
    assert model["detail"].count("ours-model") == 1
    ours = people["viewer"].post("/api/v1/estimates/", request).json()["errors"]
    assert "/model" not in {fault["pointer"] for fault in ours}
