"""manage.py on a bare Python: in a small copy of the project whose requirements are one local package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BARE = Path(sys.base_prefix) / "bin" / "python3"
STUB = """
def execute_from_command_line(argv):
    import sys
    print("ran", argv[1:], sys.prefix)
"""

pytestmark = pytest.mark.skipif(not BARE.exists(), reason="needs the interpreter that this environment was made from")


def environment(**extra: str) -> dict[str, str]:
    dropped = {"VIRTUAL_ENV", "PLANNER_NO_BOOTSTRAP", "PYTHONPATH", "DJANGO_SETTINGS_MODULE"}
    # No index: everything that the copy installs is in its own folder.
    return {name: value for name, value in os.environ.items() if name not in dropped} | {"PIP_NO_INDEX": "1"} | extra


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """manage.py, and a file of requirements that asks for nothing."""
    folder = tmp_path / "a project"
    folder.mkdir()
    shutil.copy(ROOT / "manage.py", folder)
    (folder / "requirements.txt").write_text("# nothing\n")
    (folder / "django" / "core" / "management").mkdir(parents=True)
    for package in ("django", "django/core"):
        (folder / package / "__init__.py").write_text("")
    (folder / "django" / "core" / "management" / "__init__.py").write_text(STUB)
    return folder


def run(project: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BARE, "manage.py", *arguments],
        cwd=project,
        env=environment(**extra),
        capture_output=True,
        text=True,
        check=False,
    )


def two_starts_at_once(project: Path) -> list[subprocess.CompletedProcess[str]]:
    starts = [
        subprocess.Popen(
            [BARE, "manage.py", "estimate", "-"],
            cwd=project,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [start.communicate() for start in starts]
    return [
        subprocess.CompletedProcess([], start.returncode, *output)
        for start, output in zip(starts, outputs, strict=True)
    ]


@pytest.mark.slow
def test_environment_is_built_once_kept_and_mended(project: Path) -> None:
    # One test for the whole life: each new environment costs seconds.
    starts = two_starts_at_once(project)
    assert [start.returncode for start in starts] == [0, 0], starts
    assert [start.stdout.startswith("ran ['estimate', '-']") for start in starts] == [True, True]
    assert [str(project / ".venv") in start.stdout for start in starts] == [True, True]
    assert sum("[setup]" in start.stderr for start in starts) == 1

    warm = run(project, "estimate", "-")
    assert (warm.stdout, warm.stderr) == (starts[0].stdout, "")

    (project / "requirements.txt").write_text("a-package-that-is-nowhere==1\n")
    for _ in range(2):
        failed = run(project, "check")
        assert failed.returncode != 0
        assert "could not install requirements.txt" in failed.stderr

    (project / "requirements.txt").write_text("# nothing again\n")
    mended = run(project, "check")
    assert (mended.returncode, "[setup]" in mended.stderr) == (0, True)

    moved = project.rename(project.with_name("moved"))
    assert str(moved / ".venv") in run(moved, "check").stdout


def test_switched_off_it_says_what_is_missing(project: Path) -> None:
    shutil.rmtree(project / "django")
    answer = run(project, "check", PLANNER_NO_BOOTSTRAP="1")
    assert answer.returncode != 0
    assert "Django is not installed" in answer.stderr
    assert "pip install -r" in answer.stderr
    assert not (project / ".venv").exists()
