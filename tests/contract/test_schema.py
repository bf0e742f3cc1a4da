"""The OpenAPI document in the repository is the one the code describes, and the code answers as it says."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

from planner.api.docs import SCHEMA_FILE


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def test_the_frozen_document_is_the_code(tmp_path: Path) -> None:
    """Regenerate with: manage.py spectacular --validate --fail-on-warn --file planner/api/schema.yaml"""
    written = tmp_path / "schema.yaml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(written), stdout=StringIO())
    assert written.read_text(encoding="utf-8") == SCHEMA_FILE.read_text(encoding="utf-8")


def test_every_reference_is_defined(document: dict[str, Any]) -> None:
    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= defined


def test_every_operation_names_its_problems(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            statuses = set(operation["responses"])
            wanted = {"401", "403", "404", "429", "503"} | (
                {"413", "415", "422"} if "requestBody" in operation else set()
            )
            assert wanted <= statuses, (method, path)


def test_the_contracts_doors_are_all_there(document: dict[str, Any]) -> None:
    doors = {path.removeprefix("/api/v1") for path in document["paths"]}
    wanted = {"/estimates/", "/estimates/max/", "/plans/", "/accelerators/", "/node-types/", "/offers/", "/models/"}
    assert wanted | {"/models/import/", "/optimizers/"} <= doors


def test_document_and_reference_page_are_served_without_another_server() -> None:
    client = Client()
    served = client.get("/api/v1/schema/")
    assert served.content == SCHEMA_FILE.read_bytes()
    page = client.get("/api/v1/docs/")
    assert page.status_code == 200
    assert b"http://" not in page.content
    assert b"https://" not in page.content
    assert b"<style" not in page.content
