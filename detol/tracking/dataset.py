"""The data set of a search as MLflow's users know one: an input of the run, with its digest, shape and rows."""

import json
from collections.abc import Mapping
from typing import Any


def dataset_input(data: Mapping[str, Any]) -> Any:
    """Return MLflow's ``DatasetInput`` for a data set's description (``Dataset.describe``, with ``source``).

    Name and digest are what MLflow's UI shows and filters by; the shape is the schema, rows and classes the profile.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    shape = [-1, *data.get("shape", ())]
    labels = "int64" if data.get("task") == "classification" else "float32"
    features = _tensors(str(data.get("dtype", "float32")), shape)
    schema = {"mlflow_tensorspec": {"features": features, "targets": _tensors(labels, [-1])}}
    splits = data.get("splits") or {}
    profile = {
        "task": data.get("task"),
        "kind": data.get("kind"),
        **{f"rows_{name}": count for name, count in splits.items()},
        "outputs": data.get("outputs"),
        "balance": data.get("balance"),
        "bytes": data.get("bytes"),
    }
    known = {name: value for name, value in profile.items() if value is not None}
    made = Dataset(
        name=str(data.get("name") or "data")[:500],
        digest=str(data["digest"])[:36],
        source_type="local",
        source=json.dumps({"uri": str(data.get("source") or data.get("name") or "")}),
        schema=json.dumps(schema),
        profile=json.dumps(known),
    )
    return DatasetInput(made, [InputTag("mlflow.data.context", "search")])


def _tensors(dtype: str, shape: list[int]) -> str:
    return json.dumps([{"type": "tensor", "tensor-spec": {"dtype": dtype, "shape": shape}}])
