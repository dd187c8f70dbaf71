"""The best model of a search as an MLflow model: what ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` take.

Made from the ONNX file of an export, so that it needs neither detol nor torch to run.
"""

import hashlib
import re
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ALIAS = "best"
"""Of the newest version that a search registers: ``models:/NAME@best``."""

SAMPLES = "samples.npy"
"""File of an export with some raw samples: the model's input example."""

_NAMES = {1: "float32", 2: "uint8", 6: "int32", 7: "int64", 11: "float64"}  # onnx.TensorProto.DataType


def log_model(
    client: Any, experiment: str, run_id: str | None, folder: Path, labels: Mapping[str, str] | None = None
) -> str | None:
    """Log an export as the model of a run and return its id; ``None`` when it has neither ``mlflow`` nor ONNX.

    A model that the run has already, made of the same file, is left as it is.

    Args:
        client: of MLflow.
        experiment: its id.
        run_id: of the run that it comes from; ``None`` for none.
        folder: that ``detol.export`` wrote.
        labels: tags of the model.
    """
    ready = folder / "mlflow"
    source = ready / "model.onnx" if ready.is_dir() else folder / "model.onnx"
    if not source.is_file():
        return None
    tags = {**(labels or {}), "detol.file": hashlib.sha256(source.read_bytes()).hexdigest()[:16]}
    where = f"source_run_id = '{run_id}'" if run_id else f"tags.`detol.file` = '{tags['detol.file']}'"
    for model in client.search_logged_models([experiment], where):
        if str(model.status) == "READY" and model.tags.get("detol.file") == tags["detol.file"]:
            return str(model.model_id)

    from mlflow.entities import LoggedModelOutput

    made = client.create_logged_model(experiment, name="best", source_run_id=run_id, model_type="onnx", tags=tags)
    with tempfile.TemporaryDirectory() as scratch:
        place = ready
        if not ready.is_dir():
            place = Path(scratch) / "model"
            save_model(source, place, _samples(folder))
        client.log_model_artifacts(made.model_id, str(place))
    client.finalize_logged_model(made.model_id, "READY")
    if run_id:
        client.log_outputs(run_id, [LoggedModelOutput(made.model_id, step=0)])
    return str(made.model_id)


def register(
    client: Any, name: str, model_id: str, *, run_id: str | None = None, labels: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """Register a logged model under a name and move the alias ``best`` to it; return (name, version).

    A model that is a version already is not registered again.

    Args:
        client: of MLflow.
        name: of the registered model; characters that MLflow forbids become ``-``.
        model_id: from :func:`log_model`.
        run_id: of the run that it comes from.
        labels: tags of the version.
    """
    from mlflow.exceptions import MlflowException

    name = re.sub(r"[^\w.\- ]", "-", name) or "model"
    # Not ``models:/ID``: without a server MLflow would look that up in its own default store.
    source = client.get_logged_model(model_id).artifact_location
    try:
        client.create_registered_model(name, description="Found by detol. The alias `best` is the last winner.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {**(labels or {}), "detol.model": model_id}
    versions = client.search_model_versions(f"name = '{name}'")
    known = [one for one in versions if one.tags.get("detol.model") == model_id]
    made = known[0] if known else client.create_model_version(name, source, run_id, tags=tags, model_id=model_id)
    client.set_registered_model_alias(name, ALIAS, str(made.version))
    return name, str(made.version)


def save_model(source: Path, place: Path, example: Any = None) -> None:
    """Save an ONNX file as a model of MLflow, in a new folder.

    Args:
        source: the ONNX file.
        place: the folder.
        example: raw samples (n, *shape), the input example; ``None`` for none.
    """
    import mlflow.onnx
    import onnx

    network = onnx.load(source)
    mlflow.onnx.save_model(
        network,
        str(place),
        # Given, because MLflow would else load the model in a process of its own to find out.
        pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "onnx", "onnxruntime", "numpy")],
        signature=_signature(network),
        input_example=example,
        save_as_external_data=False,
        metadata={one.key: one.value for one in network.metadata_props},
    )


def _samples(folder: Path) -> Any:
    import numpy as np

    path = folder / SAMPLES
    return np.load(path, allow_pickle=False) if path.is_file() else None


def _signature(network: Any) -> Any:
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def schema(values: Any) -> Any:
        specs = []
        for value in values:
            kind = value.type.tensor_type
            sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in kind.shape.dim]
            specs.append(TensorSpec(np.dtype(_NAMES[kind.elem_type]), tuple(sizes), value.name))
        return Schema(specs)

    return ModelSignature(schema(network.graph.input), schema(network.graph.output))
