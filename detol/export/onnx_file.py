"""``model.onnx``: written from the same program as torch's file, and run again with onnxruntime."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.export.formats import Answer, Subject
from detol.export.torch_file import BATCH, quiet

INPUT = "x"
FILE = "model.onnx"


class Onnx:
    """One file with an open batch axis: raw samples in, standardisation inside, labels as metadata."""

    def write(self, subject: Subject, folder: Path) -> None:
        """Write ``model.onnx``; checked by onnx itself."""
        write_onnx(subject, folder / FILE)

    def load(self, folder: Path) -> Answer:
        """Read it with onnxruntime, on one thread of the CPU."""
        return runner(folder / FILE)

    def run_by(self) -> str:
        """Return the version of onnxruntime."""
        return f"onnxruntime {version('onnxruntime')}"


def write_onnx(subject: Subject, path: Path) -> None:
    """Write the network as one ONNX file."""
    with quiet():
        import onnx
        import torch

        program = torch.onnx.export(
            subject.program,
            dynamo=True,
            input_names=[INPUT],
            output_names=["value" if subject.network.regression else "logits"],
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.doc_string = f"{subject.title} Input: raw samples; standardisation is part of the graph."
    onnx.helper.set_model_props(model, dict(subject.labels))
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def runner(path: Path) -> Answer:
    """Return an ONNX file as a function of raw samples (n, *shape), computed on one thread of the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def answer(samples: NDArray[Any]) -> NDArray[Any]:
        parts = [session.run(None, {INPUT: samples[at : at + BATCH]})[0] for at in range(0, len(samples), BATCH)]
        found: NDArray[Any] = np.concatenate(parts)
        return found

    return answer
