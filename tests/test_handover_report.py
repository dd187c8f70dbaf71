"""The short report that a search hands to MLflow at its end."""

import pytest

from detol import handover
from detol.dashboards.report import writer
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions


@pytest.fixture
def db(tmp_path):
    with Database(tmp_path / "results.db") as database:
        described = {"digest": "x1:digits", "name": "digits", "kind": "image", "shape": [1, 8, 8], "outputs": 10}
        store = database.create_search("one", {"objectives": ["val_accuracy"], "epochs": 1}, described, Recipe())
        candidate = Candidate(Decisions(width=8), chain(op("conv", channels=8)), Origin.SAMPLE)
        report = Report(1, {"val_accuracy": 0.8}, 1.0)
        store.add(Trial(0, candidate, State.COMPLETED, 1, reports=(report,), curve=(0.8,), scores=(0.8,), seconds=1.0))
        store.finish()
    return str(tmp_path / "results.db")


def test_it_is_there_while_it_is_logged_and_gone_afterwards(db):
    with handover.reported("one", db, wanted=True, say=pytest.fail) as report:
        assert report.name == "report.html"
        assert "This is the short report" in report.read_text()
    assert not report.exists()


def test_where_nothing_is_logged_nothing_is_made(db, monkeypatch):
    monkeypatch.setattr(writer, "write_report", lambda *_, **__: pytest.fail("made"))
    with handover.reported("one", db, wanted=False, say=pytest.fail) as report:
        assert report is None


def test_one_that_fails_costs_a_warning(db, monkeypatch):
    def broken(*_, **__):
        raise KeyError("a fault of ours")

    monkeypatch.setattr(writer, "write_report", broken)
    said = []
    with handover.reported("one", db, wanted=True, say=said.append) as report:
        assert report is None
    assert said == ["the report was not logged to MLflow: 'a fault of ours'"]
