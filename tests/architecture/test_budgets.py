"""Sizes and habits that keep the code readable, measured instead of remembered."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 400
BODY_LINES = 50
PARAMETERS = 7
# What only this project's authors could trip over is in the code; what the wider world could is in the patterns.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home/[a-z]+|root|Users/[A-Za-z]+|work)/")
LOOSE_ENDS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")


def tracked() -> list[Path]:
    """Committed and new files alike, without the ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        pytest.skip("the sources are not a git checkout")
    return [ROOT / name for name in run.stdout.splitlines() if (ROOT / name).is_file()]


def sources() -> list[Path]:
    """Our own Python, migrations apart: those are generated."""
    files = [path for path in tracked() if path.suffix == ".py" and "migrations" not in path.parts]
    assert len(files) > 20, "the walk finds too little to mean anything"
    return files


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def body_lines(function: Function) -> int:
    """Lines of the body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 1 + (body[-1].end_lineno or 0) - body[0].lineno if body else 0


def parameters(function: Function) -> int:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def too_long_files(files: list[Path]) -> list[str]:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    return [f"{path.relative_to(ROOT)}: {length} lines" for path, length in lengths.items() if length > FILE_LINES]


def test_files_stay_short() -> None:
    assert too_long_files(sources()) == []


def test_functions_fit_on_a_screen() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}: {body_lines(function)} lines"
        for path in sources()
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if body_lines(function) > BODY_LINES
    ]
    assert faults == []


def test_functions_take_few_parameters() -> None:
    # Fixtures of a test are its parameters, so tests are left out.
    faults = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}: {parameters(function)} parameters"
        for path in sources()
        if path.relative_to(ROOT).parts[0] != "tests"
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if parameters(function) > PARAMETERS
    ]
    assert faults == []


def public_functions(tree: ast.Module) -> Iterator[Function]:
    """Functions of the module and methods of its public classes; what is nested in a function is private."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else [node]
        yield from (item for item in inner if isinstance(item, Function) and not item.name.startswith("_"))


def test_public_functions_of_the_core_say_what_they_do() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
        for path in sources()
        if path.is_relative_to(ROOT / "accounting") or path.is_relative_to(ROOT / "planner" / "search")
        for function in public_functions(ast.parse(path.read_text(encoding="utf-8")))
        if ast.get_docstring(function) is None
    ]
    assert faults == []


def test_no_star_imports() -> None:
    faults = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    ]
    assert faults == []


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Lines of committed text that match, data rows and other people's texts apart."""
    found = []
    for path in tracked():
        if path.suffix in {".csv", ".gz", ".png", ".json", ".svg", ".woff2"} or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    return found


def test_nothing_is_left_for_later() -> None:
    assert lines_with(LOOSE_ENDS) == []


def test_nothing_names_a_place_on_one_machine() -> None:
    assert lines_with(MACHINE_PATHS) == []


def test_machine_paths_are_recognised() -> None:
    assert MACHINE_PATHS.search("open('/" + "home/ada/x')")
    assert not MACHINE_PATHS.search("docs/" + "work/plan and https://example.org/" + "root/")
