"""Files of the embedded instance under its `var` directory: secret key, API key, broker socket, lock."""

import hashlib
import os
import secrets
import tempfile
from pathlib import Path

# The kernel's limit for a socket path is 108 bytes on Linux and 104 on macOS, the ending zero included.
SOCKET_PATH_BYTES = 100


def private_directory(path: Path) -> Path:
    """`path`, made with access for its owner only where it is missing."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def private_file(path: Path, content: str) -> str:
    """What `path` holds; where it is missing, `content` is written to it first with access for its owner only.

    The file appears complete or not at all, and the first of two processes wins: both get the same text.
    """
    private_directory(path.parent)
    if not path.exists():
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(draft)  # noqa: PTH108 - the pair of os.link
    return path.read_text(encoding="utf-8").strip()


def secret_key(directory: Path) -> str:
    """Django's SECRET_KEY of this instance, made at the first start."""
    return private_file(directory / "secret-key", secrets.token_urlsafe(50))


def socket_path(directory: Path) -> Path:
    """Where the instance's Valkey listens: in `directory`, or in a temporary one where that path is too long."""
    near = directory / "valkey" / "socket"
    if len(os.fsencode(near)) <= SOCKET_PATH_BYTES:
        return near
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"planner-{os.getuid()}-{digest}" / "socket"


def broker_url(directory: Path) -> str:
    """The URL of the instance's Valkey as redis-py and Django's cache read it."""
    return f"unix://{socket_path(directory)}?db=0"


def celery_url(url: str) -> str:
    """The same address in Celery's spelling, which differs for unix sockets only."""
    if not url.startswith("unix://"):
        return url
    path, _, query = url.removeprefix("unix://").partition("?")
    database = query.removeprefix("db=") or "0"
    return f"redis+socket://{path}?virtual_host={database}"
