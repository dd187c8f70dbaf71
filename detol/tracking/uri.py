"""Where MLflow keeps its runs: which addresses are allowed, how they are shown, how the UI is opened."""

import re
import shlex
import sys
from pathlib import Path

from detol.errors import UsageError

_SERVERS = ("http", "https")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_REMEDY = "use sqlite:///PATH/mlflow.db, http://HOST:PORT, or off"


def check(uri: str) -> str:
    """Return the address with a relative SQLite path made absolute, so that it means the same in every process.

    Raises:
        UsageError: a directory or ``file:`` address (MLflow refuses its file store since 3.13), another scheme, or no
            path or host.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        raise UsageError(
            f"tracking needs a database or a server (MLflow 3.13 dropped its file store), got {uri!r}: {_REMEDY}"
        )
    # A database's scheme may name its driver: postgresql+psycopg.
    if scheme.partition("+")[0] not in (*_SERVERS, *_DATABASES):
        raise UsageError(f"tracking cannot use the scheme {scheme!r} of {redact(uri)!r}: {_REMEDY}")
    if not rest.strip("/"):
        raise UsageError(f"tracking {uri!r} names no place: {_REMEDY}")
    path = sqlite_path(uri)
    return uri if path is None else f"{scheme}:///{path}"


def is_server(uri: str) -> bool:
    """Return whether an address is of a server, not of a database."""
    return uri.partition("://")[0] in _SERVERS


def sqlite_path(uri: str) -> Path | None:
    """Return the absolute path of the file behind a ``sqlite:`` address; ``None`` for any other address."""
    scheme, _, rest = uri.partition("://")
    if scheme.partition("+")[0] != "sqlite":
        return None
    # Three slashes and a relative path, four and an absolute one (SQLAlchemy).
    return Path(rest[1:].partition("?")[0]).absolute()


def redact(uri: str) -> str:
    """Return the address without its password, for messages and logs."""
    return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1:***@", uri)


def ui_command(uri: str) -> str:
    """Return the shell command that opens the MLflow UI on an address (for a server: its address in a browser)."""
    if is_server(uri):
        return f"open {redact(uri)} in a browser"
    program = Path(sys.executable).parent / "mlflow"
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    path = sqlite_path(uri)
    if path is not None and path.is_relative_to(Path.cwd()):
        uri = f"sqlite:///{path.relative_to(Path.cwd())}"
    return f"{shlex.quote(str(program))} ui --backend-store-uri {shlex.quote(redact(uri))}"
