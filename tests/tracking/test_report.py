"""The report of a search among its artifacts in MLflow."""

from pathlib import Path

import pytest

from detol.tracking.mirror import Mirror
from detol.tracking.wire import Finish, Seen


def test_it_stands_beside_the_summary_and_is_replaced(start, trial, shown, tmp_path: Path) -> None:
    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    mirror.take(Seen(trial(0), 1.0))
    report = tmp_path / "report.html"
    for text in ("<html>first</html>", "<html>second</html>"):
        report.write_text(text)
        mirror.take(Finish(trial(0), {"trials": 1}, "", str(report)))
        assert mirror.work(patient=False)
    found = shown(start.uri)
    names = {item.path for item in found.client.list_artifacts(found.parent.info.run_id)}
    assert names == {"report.html", "summary.json"}
    copy = found.client.download_artifacts(found.parent.info.run_id, "report.html", str(tmp_path))
    assert Path(copy).read_text() == "<html>second</html>"


def test_a_synchronisation_leaves_the_one_that_is_there(start, trial, shown, tmp_path: Path) -> None:
    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    report = tmp_path / "report.html"
    for text in ("<html>whole</html>", "<html>short</html>"):
        report.write_text(text)
        mirror.take(Finish(trial(0), {"trials": 1}, "", str(report), keep=True))
        assert mirror.work(patient=False)
    found = shown(start.uri)
    copy = found.client.download_artifacts(found.parent.info.run_id, "report.html", str(tmp_path))
    assert Path(copy).read_text() == "<html>whole</html>"


def test_one_that_is_gone_is_left_out(start, trial, shown, tmp_path: Path) -> None:
    mirror = Mirror(start, lambda line: pytest.fail(str(line)), lambda: 0.0)
    mirror.take(Finish(trial(0), {"trials": 1}, "", str(tmp_path / "none.html")))
    assert mirror.work(patient=False)
    found = shown(start.uri)
    assert [item.path for item in found.client.list_artifacts(found.parent.info.run_id)] == ["summary.json"]
