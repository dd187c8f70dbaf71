"""The MLflow store itself: opening it, the experiment, and who may write.

Only one process may create the tables of a database: two that find it empty both migrate it, and one of them breaks
(mlflow/mlflow#23634, hydraflow#245). A lock file beside the database, or in the temporary directory, keeps the second
one waiting.
"""

import contextlib
import hashlib
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from detol.tracking.uri import sqlite_path
from detol.tracking.wire import Start

_WAIT = 120.0
"""Seconds to wait for another process that prepares the database or mirrors the same search."""


def open_store(start: Start) -> tuple[Any, str]:
    """Return an ``MlflowClient`` and the id of the search's experiment, both made where there are none.

    Raises:
        Exception: whatever MLflow, the database driver or the network raises; there is no common base.
    """
    with _preparing(start.uri):
        from mlflow import MlflowClient
        from mlflow.store.db import utils

        # MLflow tries a database that it cannot open again for nearly an hour; trying again is the mirror's work.
        utils.MAX_RETRY_COUNT = 1
        _tune(start.uri)
        client = MlflowClient(tracking_uri=start.uri)
        return client, _experiment(client, start)


def identity_of(start: Start) -> str:
    """Return the tag that all runs of one search share: 32 hexadecimal digits."""
    return hashlib.sha256(f"{start.search}\0{start.identity}".encode()).hexdigest()[:32]


def writer_lock(start: Start) -> FileLock:
    """Return the lock that the one mirror of a search holds for its life, on this machine."""
    return FileLock(_locks() / f"mirror-{identity_of(start)}-{_short(start.uri)}.lock", timeout=_WAIT)


def _preparing(uri: str) -> FileLock:
    path = sqlite_path(uri)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{path}.lock", timeout=_WAIT)
    return FileLock(_locks() / f"prepare-{_short(uri)}.lock", timeout=_WAIT)


def _locks() -> Path:
    # One directory a user: a lock of another user could not be opened.
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"detol-{owner}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _experiment(client: Any, start: Start) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(start.experiment)
    if found is None:
        try:
            return str(client.create_experiment(start.experiment, artifact_location=_artifacts(start)))
        except MlflowException:
            found = client.get_experiment_by_name(start.experiment)  # another search was quicker (a server has no lock)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _artifacts(start: Start) -> str | None:
    if start.artifacts:
        return Path(start.artifacts).absolute().as_uri()
    path = sqlite_path(start.uri)
    # MLflow's own default is the directory of whoever creates the experiment.
    return None if path is None else (path.parent / "mlflow-artifacts").as_uri()


_tuned: set[str] = set()


def _tune(uri: str) -> None:
    """Let readers (the UI) and the writer work at once, and do without a sync to disk for each small transaction.

    For a SQLite store, from its next connection on. Write-ahead logging stays with the file; a power cut may cost the
    last transactions, which ``detol track sync`` writes again, and never the database.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    path = sqlite_path(uri)
    if path is None:
        return
    _tuned.add(str(path.resolve()))
    # MLflow makes the engine itself and does not show it.
    if not event.contains(Engine, "connect", _relax):
        event.listen(Engine, "connect", _relax)


def _relax(connection: Any, _record: object) -> None:
    if not isinstance(connection, sqlite3.Connection):
        return
    _, _, path = connection.execute("PRAGMA database_list").fetchone()
    if path in _tuned:
        with contextlib.suppress(sqlite3.OperationalError):  # somebody has it open in the other mode: slower, no more
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
