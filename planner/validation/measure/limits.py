"""What a measuring process takes from itself before it does anything: it ends with its parent, and within limits."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def end_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent dies; a parent that has died already is noticed here."""
    parent = os.getppid()
    if hasattr(ctypes, "CDLL") and os.uname().sysname == "Linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        os._exit(1)


def take_limits(*, data_bytes: int | None, seconds: int) -> None:
    """Kernel limits for this process and what it starts: processor time, private memory, no core files.

    A CUDA context maps far more than it uses, so `data_bytes` is None there and the parent watches alone.
    """
    if os.uname().sysname == "Linux":
        ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds * (os.cpu_count() or 1),
        resource.RLIMIT_FSIZE: 1 << 32,
    }
    if data_bytes is not None:
        wanted[resource.RLIMIT_DATA] = data_bytes
    for what, amount in wanted.items():
        _, hard = resource.getrlimit(what)
        ceiling = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(what, (ceiling, ceiling))
