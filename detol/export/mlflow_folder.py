"""``mlflow/``: the network as a model of MLflow, made from ONNX so that it needs neither detol nor torch to run."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.export.formats import Answer, Subject
from detol.export.onnx_file import FILE, write_onnx
from detol.export.torch_file import BATCH, quiet
from detol.tracking.model import save_model

FOLDER = "mlflow"
_EXAMPLE = 2


class Mlflow:
    """A model with signature, input example and requirements, for ``mlflow.pyfunc`` and ``mlflow models serve``."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Write the folder ``mlflow``."""
        with tempfile.TemporaryDirectory(prefix="detol-") as scratch:
            source = folder / FILE
            if not source.exists():
                source = Path(scratch) / FILE
                write_onnx(subject, source)
            with quiet():
                save_model(source, folder / FOLDER, subject.dataset.validation.x[:_EXAMPLE])

    def load(self, folder: Path) -> Answer:
        """Read it as MLflow's users do."""
        with quiet():
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            import mlflow.pyfunc

            model = mlflow.pyfunc.load_model(str(folder / FOLDER))

        def answer(samples: NDArray[Any]) -> NDArray[Any]:
            with quiet():
                parts = [model.predict(samples[at : at + BATCH]) for at in range(0, len(samples), BATCH)]
            found: NDArray[Any] = np.concatenate([next(iter(part.values())) for part in parts])
            return found

        return answer

    def run_by(self) -> str:
        """Return the version of MLflow."""
        return f"mlflow {version('mlflow')}"
