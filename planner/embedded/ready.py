"""Bring the embedded database to a usable state before a command reads it; nearly free when that is done already."""

import fcntl
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from planner.embedded.instance import private_directory

ROOT = Path(__file__).resolve().parents[2]
# Everything a prepared database depends on: our tables, other packages' tables (by their pins) and the shipped rows.
INPUTS = (
    "requirements.txt",
    "planner/migrations/*.py",
    "hardware/migrations/*.py",
    "hardware/data/**/*",
    "planner/specs/data/**/*",
)


def fingerprint() -> str:
    """A digest of the names, sizes and change times of the inputs: no file is read."""
    digest = hashlib.sha256()
    for pattern in INPUTS:
        for path in sorted(ROOT.glob(pattern)):
            status = path.stat()
            digest.update(f"{path.relative_to(ROOT)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel releases when the process ends, however it ends."""
    private_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def ensure_ready() -> bool:
    """Migrate and load the catalog where the embedded database lacks them; True when there was something to do.

    A production database (DATABASE_URL) is never touched: its migrations are a step of the deployment.
    """
    if not settings.EMBEDDED:
        return False
    stamp, database = settings.VAR_DIR / "ready", Path(settings.DATABASES["default"]["NAME"])
    wanted = fingerprint()
    if _is_ready(stamp, database, wanted):
        return False
    with exclusive(settings.VAR_DIR / "ready.lock"):
        if _is_ready(stamp, database, wanted):
            return False
        # Standard output belongs to the answer of the command that came here first.
        print(f"[setup] preparing {database} ...", file=sys.stderr, flush=True)
        call_command("migrate", verbosity=0, interactive=False, stdout=sys.stderr)
        call_command("load_catalog", stdout=sys.stderr)
        stamp.write_text(wanted, encoding="utf-8")
    return True


def _is_ready(stamp: Path, database: Path, wanted: str) -> bool:
    return database.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted
