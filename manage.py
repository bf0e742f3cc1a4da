#!/usr/bin/env python3
"""Entry point of every command. On a bare Python it first builds `.venv` from requirements.txt, then runs inside it.

Standard library only, and plain enough for an old Python to reach the message that asks for a newer one.
PLANNER_NO_BOOTSTRAP=1 or an active virtual environment switches the building off.
"""

import os
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib's import is a tenth of a warm start
REQUIREMENTS = os.path.join(HERE, "requirements.txt")  # noqa: PTH118
ENVIRONMENT = os.path.join(HERE, ".venv")  # noqa: PTH118
STAMP = os.path.join(ENVIRONMENT, ".requirements")  # noqa: PTH118
WINDOWS = os.name == "nt"
PYTHON = os.path.join(ENVIRONMENT, "Scripts" if WINDOWS else "bin", "python.exe" if WINDOWS else "python")  # noqa: PTH118


def wanted_stamp() -> "list[str]":
    """What a finished environment says about itself: its interpreter with its place, and the requirements' hash."""
    import hashlib  # noqa: PLC0415 - a process inside the environment never needs it

    with open(REQUIREMENTS, "rb") as stream:  # noqa: PTH123
        digest = hashlib.sha256(stream.read()).hexdigest()
    return ["{} {} {}".format(sys.version.split()[0], sys.base_prefix, HERE), digest]  # noqa: UP032 - old Pythons


def found_stamp() -> "list[str]":
    """What the environment at hand says; nothing where it is missing or was never finished."""
    if not os.path.exists(PYTHON) or not os.path.exists(STAMP):  # noqa: PTH110
        return []
    with open(STAMP, encoding="utf-8") as stream:  # noqa: PTH123
        return stream.read().splitlines()


def create_environment() -> "list[str]":
    """Make an empty environment and return the pip command that installs into it."""
    import venv  # noqa: PLC0415

    # The class copies the interpreter by default; a copy can pick up another Python's library.
    symlinks = not WINDOWS
    try:
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=symlinks).create(ENVIRONMENT)
    except (Exception, SystemExit):
        # Debian without python3-venv has no ensurepip: the outer pip can install from outside.
        venv.EnvBuilder(with_pip=False, clear=True, symlinks=symlinks).create(ENVIRONMENT)
    else:
        return [PYTHON, "-m", "pip"]
    outer = [sys.executable, "-m", "pip"]
    if subprocess.call([*outer, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
        sys.exit("This Python has neither ensurepip nor pip. Install one of them (on Debian: python3-venv).")
    return [*outer, "--python", PYTHON]


def build(found: "list[str]", wanted: "list[str]") -> None:
    """Bring the environment to the wanted state; the stamp is written last, so a broken build is never trusted."""
    print("[setup] installing requirements.txt into .venv (about a minute, once) ...", file=sys.stderr, flush=True)
    pip = [PYTHON, "-m", "pip"]
    if found[:1] != wanted[:1] or subprocess.call([*pip, "--version"], stdout=subprocess.DEVNULL) != 0:
        pip = create_environment()
    if os.path.exists(STAMP):  # noqa: PTH110
        os.remove(STAMP)  # noqa: PTH107
    install = [*pip, "install", "-qq", "--disable-pip-version-check", "-r", REQUIREMENTS]
    # Commands print their answer to stdout, and nothing else may.
    if subprocess.call(install, stdout=sys.stderr) != 0:
        sys.exit("[setup] pip could not install requirements.txt; its own words are above. Nothing else was changed.")
    with open(STAMP, "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write("\n".join(wanted) + "\n")


def ensure_environment() -> None:
    """Replace this process by one inside `.venv`, building it first where it is missing or out of date."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit("Python %d.%d or newer is needed, this is %s." % (*OLDEST_PYTHON, sys.version.split()[0]))  # noqa: UP031
    wanted = wanted_stamp()
    if found_stamp() != wanted:
        lock = None
        if not WINDOWS:
            import fcntl  # noqa: PLC0415

            # Two first commands at once: the second waits here and finds the work done.
            lock = os.open(HERE, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
        found = found_stamp()
        if found != wanted:
            build(found, wanted)
        if lock is not None:
            os.close(lock)
    command = [PYTHON, os.path.join(HERE, "manage.py"), *sys.argv[1:]]  # noqa: PTH118
    if WINDOWS:
        sys.exit(subprocess.call(command))
    sys.stdout.flush()
    os.execv(PYTHON, command)


def main() -> None:
    """Run a Django command in the right environment."""
    inside = sys.prefix != sys.base_prefix
    if not inside and os.environ.get("PLANNER_NO_BOOTSTRAP") != "1":
        ensure_environment()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "planner.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "django":
            raise
        sys.exit(
            "Django is not installed in " + sys.prefix + ". Either install into it with\n"
            "    " + sys.executable + " -m pip install -r " + REQUIREMENTS + "\n"
            "or run without an active virtual environment and without PLANNER_NO_BOOTSTRAP."
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
