"""Who runs a search: one controller at a time, and one that died holds nobody up."""

import os
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

STALE_SECONDS = 600.0
"""Without a heartbeat for so long a search of *another* machine counts as left behind."""

BEAT_SECONDS = 15.0
"""How often a commit refreshes the heartbeat."""

_mine: "WeakValueDictionary[str, object]" = WeakValueDictionary()


def claim(holder: object) -> dict[str, Any]:
    """Return the columns that say that ``holder``, an object of this process, runs a search from now on."""
    token = f"{_started(os.getpid())}:{uuid.uuid4().hex}"
    _mine[token] = holder
    return {"host": socket.gethostname(), "pid": os.getpid(), "owner": token, "heartbeat": time.time()}


def release(token: str) -> dict[str, Any]:
    """Return the columns that say that nobody runs the search."""
    _mine.pop(token, None)
    return {"host": "", "pid": None, "owner": ""}


def alive(row: Mapping[Any, Any]) -> bool:
    """Return whether the owner in a row of ``searches`` still runs it.

    On this machine the process decides (by id and start time, since ids come back), within this process the object;
    on another machine the heartbeat does.
    """
    if not row["owner"]:
        return False
    if row["host"] != socket.gethostname():
        return bool(time.time() - row["heartbeat"] < STALE_SECONDS)
    if row["pid"] == os.getpid():
        return row["owner"] in _mine
    started = _started(row["pid"])
    return started is not None and str(row["owner"]).split(":", 1)[0] == started


def _started(pid: int) -> str | None:
    """Return when a process of this machine started, in its own unit; ``None`` when there is none of that id."""
    try:
        # proc(5): the command may hold spaces and brackets; the start time is field 22, the state field 3.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "?"
