import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from detol.tracking.mirror import Mirror
from detol.tracking.wire import Finish, Seen

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


def test_the_best_model_is_logged_once_and_can_be_loaded(start, trial, shown, tmp_path) -> None:
    import mlflow.models
    import mlflow.pyfunc

    export = tmp_path / "export"
    export.mkdir()
    double = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["logits"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
    )
    model = helper.make_model(double, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, export / "model.onnx")
    (export / "export.json").write_text("{}")

    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    for _ in range(2):  # the search is over, resumed, over again
        mirror.take(Seen(trial(0), 1.0))
        mirror.take(Finish(trial(0), {}, str(export)))
        assert mirror.work(patient=False)
    found = shown(start.uri)
    files = {item.path for item in found.client.list_artifacts(found.parent.info.run_id, "export")}
    assert files == {"export/model.onnx", "export/export.json"}
    (logged,) = found.client.search_logged_models([found.experiment.experiment_id])
    assert (logged.name, logged.source_run_id, str(logged.status)) == ("best", found.parent.info.run_id, "READY")
    folder = logged.artifact_location.removeprefix("file://")
    described = mlflow.models.Model.load(folder)
    assert {"onnx", "python_function"} <= set(described.flavors)
    (entry,) = described.signature.inputs.inputs
    assert (entry.name, str(entry.type), entry.shape) == ("x", "float32", (-1, 3))
    answer = mlflow.pyfunc.load_model(folder).predict(np.float32([[1, 2, 3]]))
    assert answer["logits"].tolist() == [[2, 4, 6]]
