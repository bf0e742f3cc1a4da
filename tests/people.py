"""Three people in two teams, callers with their tokens, and a search that takes no time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from planner.errors import Fault, InvalidRequest
from planner.teams.models import Role, Team
from planner.teams.services import membership_set, team_create, token_create

PLAN = {
    "model": "llama-2-7b",
    "workload": {"tokens": 15_000_000_000, "sequence_length": 4096, "global_batch_tokens": 1_048_576},
    "hardware": {"accelerators": ["h100-sxm5-80gb"], "pricing": ["on-demand"], "max_count": 16},
    "search": {"zero_stages": [3], "tp": [1], "micro_batch_sizes": [1], "recompute": ["none"]},
    "options": 3,
}
ANSWER = {
    "recommendation": {"rank": 1, "usd": 1e22, "hours": -0.0},
    "options": [],
    "frontier": [],
    "rejections": {"memory": 3},
    "nearest_misses": [],
    "search": {"candidates": 5, "seconds": 0.25},
}


@dataclass(frozen=True)
class Caller:
    """One token's way to the API."""

    client: Client
    token: str

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {
            "Authorization": f"Bearer {self.token}",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        if not self.token:
            del sent["Authorization"]
        kind = sent.pop("Content-Type", "application/json")
        return self.client.generic(method, path, content, content_type=kind, headers=sent)

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)


def quiet_client() -> Client:
    """Answers faults of ours as the server would, with a 500, where Django's own client raises them."""
    return Client(raise_request_exception=False)


@pytest.fixture
def team(db: None) -> Team:
    return team_create(slug="ours", name="Ours")


@pytest.fixture
def other_team(db: None) -> Team:
    return team_create(slug="theirs", name="Theirs")


@pytest.fixture
def person(team: Team) -> Callable[..., User]:
    def make(name: str, role: str = Role.PLANNER, of: Team = team) -> User:
        user = User.objects.create_user(name)
        membership_set(team=of, user=user, role=role)
        return user

    return make


@pytest.fixture
def caller(person: Callable[..., User], team: Team) -> Callable[..., Caller]:
    def make(name: str, role: str = Role.PLANNER, scope: str = "admin", of: Team = team) -> Caller:
        _, text = token_create(team=of, user=person(name, role, of), name="test", scope=scope)
        return Caller(quiet_client(), text)

    return make


@pytest.fixture
def owner(caller: Callable[..., Caller]) -> Caller:
    return caller("owner")


@pytest.fixture
def stranger(caller: Callable[..., Caller], other_team: Team) -> Caller:
    return caller("stranger", of=other_team)


@pytest.fixture
def quick_search(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., dict[str, Any]]], None]:
    """Puts a search of the test's own in place of the real one: what is tested is what surrounds it."""

    def install(found: Callable[..., dict[str, Any]]) -> None:
        monkeypatch.setattr("planner.plans.running.search", found)

    def answer(problem: object, progress: Callable[[int, int], None], cancelled: Callable[[], bool]) -> dict[str, Any]:
        progress(5, 5)
        return json.loads(json.dumps(ANSWER))

    monkeypatch.setattr("planner.plans.services.read_plan", _read)
    monkeypatch.setattr("planner.plans.running.read_plan", _read)
    monkeypatch.setattr("planner.plans.running.link_exports", lambda found, run, context: None)
    install(answer)
    return install


def _read(payload: Any, context: object) -> Any:
    if not isinstance(payload, dict) or "model" not in payload:
        raise InvalidRequest([Fault("/model", "required", "model is missing")])
    return payload


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ids that were rung for, in place of a broker."""
    rung: list[Any] = []

    def send(task: str, row: object) -> bool:
        rung.append(row)
        return True

    monkeypatch.setattr("planner.queue.send", send)
    monkeypatch.setattr("planner.plans.services.send", send)
    return rung
