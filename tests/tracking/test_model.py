import numpy as np
import pytest

from detol.tracking.mirror import Mirror
from detol.tracking.model import log_model, register
from detol.tracking.registry import register_export
from detol.tracking.wire import Finish, Seen

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")


def test_the_best_model_is_logged_once_and_can_be_loaded(start, trial, shown, export) -> None:
    import mlflow.models
    import mlflow.pyfunc

    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    for _ in range(2):  # the search is over, resumed, over again
        mirror.take(Seen(trial(0), 1.0))
        mirror.take(Finish(trial(0), {}, str(export)))
        assert mirror.work(patient=False)
    found = shown(start.uri)
    files = {item.path for item in found.client.list_artifacts(found.parent.info.run_id, "export")}
    assert files == {"export/model.onnx", "export/certificate.json", "export/samples.npy"}
    (logged,) = found.client.search_logged_models([found.experiment.experiment_id])
    assert (logged.name, logged.source_run_id, str(logged.status)) == ("best", found.parent.info.run_id, "READY")
    folder = logged.artifact_location.removeprefix("file://")
    described = mlflow.models.Model.load(folder)
    assert {"onnx", "python_function"} <= set(described.flavors)
    (entry,) = described.signature.inputs.inputs
    assert (entry.name, str(entry.type), entry.shape) == ("x", "float32", (-1, 3))
    np.testing.assert_array_equal(described.load_input_example(folder)["x"], np.ones((2, 3), np.float32))
    answer = mlflow.pyfunc.load_model(folder).predict(np.float32([[1, 2, 3]]))
    assert answer["logits"].tolist() == [[2, 4, 6]]
    (version,) = found.client.search_model_versions("name = 'first'")
    assert (version.run_id, version.tags["detol.model"]) == (found.parent.info.run_id, logged.model_id)


def test_another_winner_is_another_version_and_the_alias_moves(start, trial, shown, export) -> None:
    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    mirror.take(Seen(trial(0), 1.0))
    mirror.take(Finish(trial(0), {}, str(export)))
    assert mirror.work(patient=False)
    model = export / "model.onnx"
    model.write_bytes(model.read_bytes().replace(b"double", b"second"))
    mirror.take(Finish(trial(0), {}, str(export)))
    assert mirror.work(patient=False)
    client = shown(start.uri).client
    assert {one.version for one in client.search_model_versions("name = 'first'")} == {1, 2}
    assert client.get_model_version_by_alias("first", "best").version == 2


def test_a_name_that_the_registry_does_not_take_is_made_one_that_it_takes(start, shown, export) -> None:
    Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0).work(patient=False)
    found = shown(start.uri)
    model = log_model(found.client, found.experiment.experiment_id, found.parent.info.run_id, export)
    assert model is not None
    assert register(found.client, "a/b: <c>'", model, run_id=found.parent.info.run_id) == ("a-b- -c--", "1")


def test_an_export_is_registered_on_request_without_any_run(start, shown, export) -> None:
    for _ in range(2):
        found = register_export(start, export, "chosen", {"detol.trial": "first/3"})
        assert found == {"name": "chosen", "version": "1", "uri": "models:/chosen@best"}
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=start.uri)
    assert client.get_model_version_by_alias("chosen", "best").tags["detol.trial"] == "first/3"


def test_a_registry_that_is_not_there_is_one_line(start, export) -> None:
    from dataclasses import replace

    from detol.errors import DetolError

    with pytest.raises(DetolError, match="exported to .*, but not registered: MLflow at http://u:...@127") as error:
        register_export(replace(start, uri="http://u:secret@127.0.0.1:9"), export, "chosen")
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_report_is_put_beside_the_summary(start, trial, shown, tmp_path) -> None:
    from detol.errors import DetolError
    from detol.tracking.registry import attach

    report = tmp_path / "report.html"
    report.write_text("<html></html>")
    with pytest.raises(DetolError, match="has no search first: detol track sync first"):
        attach(start, [report])
    Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0).work(patient=False)
    attach(start, [report])
    found = shown(start.uri)
    assert [item.path for item in found.client.list_artifacts(found.parent.info.run_id)] == ["report.html"]
