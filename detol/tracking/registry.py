"""What is written to MLflow on request, outside the mirror: an export to the model registry, files to a search."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detol.errors import DetolError
from detol.tracking.model import ALIAS, log_model, register
from detol.tracking.place import identity_of, open_store
from detol.tracking.process import ENVIRONMENT
from detol.tracking.uri import redact
from detol.tracking.wire import Start


def register_export(start: Start, folder: Path, name: str, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Log an exported folder as a model of its search and register it; the alias ``best`` moves to it.

    Args:
        start: the search and MLflow's address; a run of the search is named as the source where there is one.
        folder: that ``detol.export`` wrote, with ``mlflow`` or ``model.onnx``.
        name: of the registered model.
        labels: tags of the model and of its version.

    Returns:
        ``name``, ``version``, and the ``uri`` by which MLflow loads it.

    Raises:
        DetolError: MLflow cannot be reached, or refuses; one line.
    """
    try:
        client, experiment, run_id = _open(start)
        model = log_model(client, experiment, run_id, folder, labels)
        if model is None:
            raise DetolError("--register needs an export with --format mlflow or onnx")
        with _default(start.uri):
            registered, number = register(client, name, model, run_id=run_id, labels=labels)
    except DetolError:
        raise
    except Exception as error:  # MLflow, drivers and network have no common base
        raise DetolError(f"exported to {folder}, but not registered: {_said(start, error)}") from None
    return {"name": registered, "version": number, "uri": f"models:/{registered}@{ALIAS}"}


def attach(start: Start, files: Sequence[Path]) -> None:
    """Put files (a report ...) among the artifacts of a search's parent run; one of the same name is replaced.

    Raises:
        DetolError: MLflow cannot be reached, or does not have the search; one line.
    """
    try:
        client, _, run_id = _open(start)
        if run_id is None:
            raise DetolError(
                f"MLflow at {redact(start.uri)} has no search {start.search}: detol track sync {start.search}"
            )
        for file in files:
            client.log_artifact(run_id, str(file))
    except DetolError:
        raise
    except Exception as error:  # as above
        raise DetolError(f"not logged to MLflow: {_said(start, error)}") from None


def _open(start: Start) -> tuple[Any, str, str | None]:
    """Return MLflow's client, the experiment, and the parent run of the search where there is one."""
    for key, value in ENVIRONMENT.items():
        os.environ.setdefault(key, value)
    client, experiment = open_store(start)
    where = f"tags.`detol.identity` = '{identity_of(start)}' and tags.`detol.kind` = 'search'"
    runs = client.search_runs([experiment], where, max_results=1)
    return client, experiment, str(runs[0].info.run_id) if runs else None


def _said(start: Start, error: Exception) -> str:
    reason = redact(" ".join(str(error).split()))[:160] or type(error).__name__
    return f"MLflow at {redact(start.uri)}: {reason}"


@contextmanager
def _default(uri: str) -> Iterator[None]:
    """Make an address MLflow's default for a while: a version of a model without a run is looked up there."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)
