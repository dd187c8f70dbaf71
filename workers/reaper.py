"""What a local Ray leaves behind when the process that started it is killed: two agents and a directory.

Ray's daemons and workers die with their parent at once, but its agents look for the dead control store for a minute.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from detol.errors import UsageError

# Waits for the end of its input, which comes when the parent dies however it dies; then clears up.
_SCRIPT = 'read -r _; sleep 1; home=$1; shift; [ $# -gt 0 ] && kill -9 "$@" 2>/dev/null; rm -rf -- "$home"'


def short_directory() -> Path:
    """Return a new private directory for Ray's sockets, whose paths may not be longer than 107 bytes.

    Raises:
        UsageError: there is no place for one.
    """
    for parent in ("/tmp", tempfile.gettempdir()):  # noqa: S108  a fresh private directory inside it
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="detol-", dir=parent))
    raise UsageError("Ray needs a directory for its sockets and neither /tmp nor TMPDIR can be written: set TMPDIR")


@contextlib.contextmanager
def reaper(home: Path | None) -> Iterator[Callable[[], None]]:
    """Clear up after a local Ray: at the end of the context, or by a tiny child process when this one is killed.

    Args:
        home: the directory of this Ray, removed at the end; ``None`` when it is not ours.

    Yields:
        A function to call once Ray runs: from then on the child knows whom to end.
    """
    watchers: list[subprocess.Popen[bytes]] = []

    def watch() -> None:
        if home and Path("/bin/sh").exists():
            command = ["/bin/sh", "-c", _SCRIPT, "detol-reaper", str(home), *map(str, agents(home))]
            # A session of its own: Ctrl-C in the terminal is not for it.
            watchers.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))  # noqa: S603

    try:
        yield watch
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.communicate()
        if home:
            shutil.rmtree(home, ignore_errors=True)


def agents(home: Path) -> list[int]:
    """Return the processes started by the raylet in ``home`` that is a child of this process (none without /proc)."""
    parents = dict(_processes())
    raylets = {pid for pid, parent in parents.items() if parent == os.getpid() and _is_raylet(pid, home)}
    return sorted(pid for pid, parent in parents.items() if parent in raylets)


def _processes() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            # PID (NAME) STATE PARENT ..., where the name may hold anything.
            yield int(stat.parent.name), int(stat.read_text(errors="replace").rsplit(")", 1)[1].split()[1])


def _is_raylet(pid: int, home: Path) -> bool:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"/raylet/raylet" in command and str(home).encode() in command
    return False
