"""docker-compose.yml and Dockerfile: valid by the Compose Specification, and safe where the schema cannot see."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
OURS = ("setup", "web", "worker", "gpu-worker", "beat")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def faults_of(document: dict[str, Any]) -> list[str]:
    # compose-spec.json is the published schema of the Compose Specification (Apache-2.0), unchanged.
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text())
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


def test_compose_follows_the_specification(compose: dict[str, Any]) -> None:
    assert faults_of(compose) == []


def test_schema_rejects_a_misspelt_member(compose: dict[str, Any]) -> None:
    broken = {**compose, "services": {**compose["services"], "web": {**compose["services"]["web"], "comand": []}}}
    assert faults_of(broken) != []


def test_every_lasting_service_is_probed_and_restarted(compose: dict[str, Any]) -> None:
    services = {name: body for name, body in compose["services"].items() if name != "setup"}
    assert [name for name, body in services.items() if "test" not in body["healthcheck"]] == []
    assert [name for name, body in services.items() if body["restart"] != "unless-stopped"] == []


def test_services_wait_for_what_they_need(compose: dict[str, Any]) -> None:
    for name in ("web", "worker", "gpu-worker", "beat"):
        assert compose["services"][name]["depends_on"] == {
            "setup": {"condition": "service_completed_successfully"},
            "postgres": {"condition": "service_healthy"},
            "redis": {"condition": "service_healthy"},
        }


def test_every_secret_is_required_from_the_environment(compose: dict[str, Any]) -> None:
    values = [
        (name, key, value)
        for name, body in compose["services"].items()
        for key, value in body.get("environment", {}).items()
        if re.search("SECRET|PASSWORD|AUTH|_URL", key)
    ]
    assert len(values) >= len(OURS) * 3
    assert [item for item in values if not re.search(r"\$\{[A-Z_]+:\?", item[2])] == []


def test_containers_hold_no_rights(compose: dict[str, Any]) -> None:
    for name in OURS:
        body = compose["services"][name]
        assert (body["cap_drop"], body["read_only"]) == (["ALL"], True)
    assert [name for name, body in compose["services"].items() if "ports" in body] == ["web"]


def test_broker_neither_evicts_nor_forgets(compose: dict[str, Any]) -> None:
    command = " ".join(compose["services"]["redis"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command


def test_gpu_worker_is_apart(compose: dict[str, Any]) -> None:
    worker = compose["services"]["gpu-worker"]
    assert worker["profiles"] == ["gpu"]
    assert {"--queues=gpu", "--concurrency=1"} <= set(worker["command"])
    assert "--queues=default,validation" in compose["services"]["worker"]["command"]


def test_image_does_not_run_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    user, command = lines.index("USER planner"), next(i for i, line in enumerate(lines) if line.startswith("CMD"))
    assert user < command
    assert [line for line in lines if line.startswith("COPY . ")] == []


def test_env_example_names_what_compose_and_settings_read() -> None:
    example = set(re.findall(r"^(?:# )?([A-Z][A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    compose_names = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    settings = (ROOT / "planner" / "settings.py").read_text()
    settings_names = set(re.findall(r'env_[a-z]+\(\s*"([A-Z_]+)"', settings))
    assert compose_names | settings_names <= example
