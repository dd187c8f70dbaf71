"""The best model of a search as an MLflow model: what ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` take.

Made from the ONNX file of an export, so that it needs neither detol nor torch to run.
"""

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

_NAMES = {1: "float32", 2: "uint8", 6: "int32", 7: "int64", 11: "float64"}  # onnx.TensorProto.DataType


def log_model(client: Any, experiment: str, run_id: str, folder: Path) -> str | None:
    """Log ``folder/model.onnx`` as the model of a run and return its id; ``None`` when there is no such file.

    A model that the run has already is left as it is.
    """
    source = folder / "model.onnx"
    if not source.is_file():
        return None
    known = client.search_logged_models([experiment], f"source_run_id = '{run_id}'")
    ready = [model for model in known if str(model.status) == "READY"]
    if ready:
        return str(ready[0].model_id)

    import mlflow.onnx
    import onnx
    from mlflow.entities import LoggedModelOutput

    network = onnx.load(source)
    made = client.create_logged_model(experiment, name="best", source_run_id=run_id, model_type="onnx")
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "model"
        mlflow.onnx.save_model(
            network,
            str(place),
            # Given, because MLflow would else load the model in a process of its own to find out.
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "onnx", "onnxruntime", "numpy")],
            signature=_signature(network),
            save_as_external_data=False,
        )
        client.log_model_artifacts(made.model_id, str(place))
    client.finalize_logged_model(made.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(made.model_id, step=0)])
    return str(made.model_id)


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
