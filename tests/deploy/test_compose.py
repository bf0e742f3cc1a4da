"""docker-compose.yml and Dockerfile: valid by the Compose Specification, and safe where the schema cannot see."""

import json
import re
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from celery.bin.celery import celery
from django.conf import settings
from django.core.management import get_commands
from gunicorn.config import Config

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


def commands(compose: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """(service, words) of every command line that our image is given, probes too; `&&` parts one by one."""
    found: list[tuple[str, list[str]]] = []
    for name in OURS:
        body = compose["services"][name]
        for given in (body["command"], body.get("healthcheck", {}).get("test", ["CMD"])):
            words = given[1:] if given[0] in ("CMD", "CMD-SHELL") else given
            scripts = [words[-1]] if words[:2] == ["sh", "-c"] or given[0] == "CMD-SHELL" else []
            lines = [part for script in scripts for part in script.split("&&")]
            found += [(name, shlex.split(line)) for line in lines] if lines else [(name, words)]
    image = next(line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("CMD"))
    return [*((name, words) for name, words in found if words), ("image", json.loads(image.removeprefix("CMD")))]


def test_every_command_exists(compose: dict[str, Any]) -> None:
    seen = set()
    for name, words in commands(compose):
        program, *rest = words
        assert program == "test" or shutil.which(program, path=str(Path(sys.executable).parent)), (name, words)
        seen.add(program)
        if rest[:1] == ["manage.py"]:
            assert rest[1] in get_commands(), (name, words)
        elif program == "gunicorn":
            read = Config().parser().parse_args(rest)
            assert callable(import_module(read.args[0]).application)
        elif program == "celery":
            assert rest[0] == "--app=planner.celery"
            options = {option for parameter in celery.commands[rest[1]].params for option in parameter.opts}
            given = {word.partition("=")[0] for word in rest[2:] if word.startswith("--")}
            assert given <= options, (name, given - options)
    assert seen == {"python", "gunicorn", "celery", "test"}


def test_every_queue_has_a_worker_and_every_setting_reaches_it(compose: dict[str, Any]) -> None:
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()} | {settings.CELERY_TASK_DEFAULT_QUEUE}
    words = [word for name in OURS for word in compose["services"][name]["command"]]
    heard = {queue for word in words if word.startswith("--queues=") for queue in word.partition("=")[2].split(",")}
    assert heard == routed
    assert [
        name for name in OURS if compose["services"][name]["env_file"] != [{"path": ".env", "required": False}]
    ] == []


def test_image_does_not_run_as_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    user, command = lines.index("USER planner"), next(i for i, line in enumerate(lines) if line.startswith("CMD"))
    assert user < command
    assert [line for line in lines if line.startswith("COPY . ")] == []


def test_env_example_names_what_compose_and_settings_read() -> None:
    example = set(re.findall(r"^(?:# )?([A-Z][A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    compose_names = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    source = (ROOT / "planner" / "settings.py").read_text()
    settings_names = set(re.findall(r'env_[a-z]+\(\s*"([A-Z_]+)"', source))
    assert compose_names | settings_names <= example
