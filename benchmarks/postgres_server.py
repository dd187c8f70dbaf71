"""A PostgreSQL server of one's own on loopback, to be killed and started again."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path


def binaries() -> Path | None:
    """Return where PostgreSQL's programs are, those of the newest version; ``None`` where there are none."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    listed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return listed[-1].parent if listed else None


class PostgresServer:
    """A server in a temporary folder; a context manager.

    Args:
        durable: whether commits are on disk before they are answered (``fsync``): without it, and with the server
            killed and not the machine, they are as safe.

    Attributes:
        url: of its database, for ``--db``.
    """

    def __init__(self, *, durable: bool = False) -> None:
        found = binaries()
        if found is None:
            raise RuntimeError("PostgreSQL is not installed here: apt-get install postgresql")
        self._bin = found
        self._home = Path(tempfile.mkdtemp(prefix="detol-pg.", dir="/tmp"))  # a short path: sockets lie there
        # The server refuses to run as root: it runs as postgres then.
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user:
            os.chown(self._home, pwd.getpwnam(self._user).pw_uid, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._options = [] if durable else ["-c", "fsync=off"]
        self._run("initdb", "-D", self._data, "-U", "detol", "-A", "trust", "-N")
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql+psycopg://detol@127.0.0.1:{self._port}/postgres"

    @property
    def _data(self) -> str:
        return str(self._home / "data")

    def __enter__(self) -> "PostgresServer":
        """Start the server."""
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it and remove its files."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # at once
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        where = ["-D", self._data, "-p", str(self._port), "-k", str(self._home)]
        command = [str(self._bin / "postgres"), *where, "-c", "listen_addresses=127.0.0.1", *self._options]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user, cwd=self._home)
        until = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL does not start: {(self._home / 'log').read_text()[-500:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill the server and all its processes with SIGKILL: nothing is tidied up."""
        process = self._process
        assert process is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()

    def _answers(self) -> bool:
        ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        return subprocess.run(ready, check=False, cwd=self._home).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments], check=True, capture_output=True, user=self._user, cwd=self._home
        )
