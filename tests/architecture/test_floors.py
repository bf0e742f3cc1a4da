"""The pure floors stay pure in fact, not only on paper.

The import contracts look at import statements of modules; they cannot see what a parent package pulls in at run
time. So each floor is also imported by a bare interpreter, whose loaded modules are then looked at.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = ("django", "rest_framework", "celery", "kombu", "redis", "psycopg", "structlog", "environ", "torch")


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after `statement`."""
    script = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in run.stdout.split()}


def modules_of(folder: str) -> list[str]:
    """Every module below `folder`, as it is imported."""
    files = sorted((ROOT / folder).rglob("*.py"))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files]


@pytest.mark.parametrize("folder", ["accounting", "planner/search"])
def test_pure_floor_loads_no_framework(folder: str) -> None:
    modules = modules_of(folder)
    assert modules, f"{folder} holds no module: the floor moved and this test looks at nothing"
    loaded = loaded_by("import " + ", ".join(modules))
    assert loaded.intersection(FRAMEWORKS) == set()


def test_accounting_loads_nothing_but_numpy() -> None:
    loaded = loaded_by("import " + ", ".join(modules_of("accounting")))
    own = {"accounting", "numpy"}
    assert {name for name in loaded if name not in own and name not in sys.stdlib_module_names} == set()


def test_looking_notices_a_framework() -> None:
    assert "django" in loaded_by("import planner.env")


def test_project_package_is_empty() -> None:
    assert (ROOT / "planner" / "__init__.py").read_text() == ""


def test_import_contracts_are_kept() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is a development tool; .ci/run installs and runs it")
    run = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]
