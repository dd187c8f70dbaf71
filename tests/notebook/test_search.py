"""detol.Search: running, in the background and not; opening; what it answers; how it shows itself."""

import threading
from xml.etree import ElementTree

import pandas as pd
import pytest

import detol
from detol.errors import DataError, ResultsError, UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.notebook import search as module
from detol.run import SearchInterrupted
from detol.search.records import State
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

QUICK = {"data": "digits", "space": "tiny", "strategy": "random", "stop": "none", "epochs": 2,
         "executor": "inline", "tracking": "off"}  # fmt: skip


class Shown:
    """What shows a search, in memory; ``turns`` is set at the first turn."""

    def __init__(self, at_turn=lambda: None):
        self.lines, self.ends, self.turn, self.at_turn = [], [], threading.Event(), at_turn

    def started(self, search, objective):
        pass

    def __call__(self, search):
        self.turn.set()
        self.at_turn()

    def say(self, text):
        self.lines.append(text)

    def close(self):
        pass

    def end(self, text):
        self.ends.append(text)


@pytest.fixture
def shown(monkeypatch):
    made = Shown()
    monkeypatch.setattr(module, "progress", lambda: made)
    return made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A search of five trials that has ended; nothing changes it."""
    folder = tmp_path_factory.mktemp("done")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "progress", Shown)
        return detol.Search(**QUICK, trials=5, name="mine", db=str(folder / "results.db")).run()


def test_a_search_that_has_not_started(place, shown):
    search = detol.Search(data="digits", trials=3)
    assert (search.state, search.name, search.result) == ("new", "", None)
    assert repr(search) == "Search('digits', new)"
    assert "digits" in search._repr_html_()
    for ask in (lambda: search.trials, lambda: search.best, search.results, search.resume, lambda: search.export("x")):
        with pytest.raises(UsageError, match="has not been started"):
            ask()
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tirals": 3}, "did you mean trials"),
        ({"trials": 0}, "--trials must be >= 1"),
        ({"strategy": 3}, "ask and tell"),
    ],
)
def test_wrong_settings_are_refused_at_once(given, message):
    with pytest.raises(UsageError, match=message):
        detol.Search(data="digits", **given)


def test_run_is_what_detol_search_does(place, shown, done):
    found = detol.search(**QUICK, trials=5)
    assert done.state == "finished"
    assert [trial.digest for trial in found.trials] == list(done.trials["digest"])
    assert [trial.score for trial in found.trials] == list(done.trials["val_accuracy"])
    assert done.result.summary["best"] == found.summary["best"]
    assert done.result.test == found.test


def test_trials_as_a_table(done):
    trials = done.trials
    assert isinstance(trials, pd.DataFrame)
    assert list(trials.index) == [0, 1, 2, 3, 4]
    assert list(trials.columns[:5]) == ["state", "origin", "val_accuracy", "epoch", "epochs"]
    assert set(trials["state"]) == {"completed"}
    assert trials["val_accuracy"].between(0.1, 1).all()
    assert trials["params"].dtype == "Int64"
    assert trials["created"].dt.tz is not None
    assert list(trials["epoch"]) == [2] * 5


def test_decisions_and_curves_as_tables(done):
    decisions = done.decisions
    assert list(decisions.columns) == ["width", "activation", "layers", "skip"]
    assert decisions["skip"].isna().tolist() == [layers == 1 for layers in decisions["layers"]]  # open with two layers
    curves = done.curves()
    assert list(curves.columns) == ["trial", "epoch", "val_accuracy"]
    assert len(curves) == 10
    last = curves.groupby("trial")["val_accuracy"].last()
    assert list(last) == list(done.trials["val_accuracy"])
    assert set(done.curves(1, 3)["trial"]) == {1, 3}


def test_leaderboard_and_front(done):
    results = done.results(limit=3)
    assert list(results["value"]) == sorted(done.trials["val_accuracy"], reverse=True)[:3]
    by_size = done.results(metric="params:min")
    assert by_size["value"].is_monotonic_increasing
    front = done.front()
    assert list(front.columns[:3]) == ["trial", "val_accuracy", "params"]
    assert front["params"].is_monotonic_decreasing  # the best first: each next one is smaller
    assert front["val_accuracy"].iloc[0] == done.trials["val_accuracy"].max()


def test_the_best_trial_and_any_other(done):
    best = done.best
    assert best.value == done.trials["val_accuracy"].max()
    assert best.ref == f"mine/{done.trials['val_accuracy'].idxmax()}"
    assert best.topology == done.result.best.candidate.topology
    assert list(best.curve["epoch"]) == [1, 2]
    assert repr(done.trial(3)).startswith("Trial('mine/3', completed, val_accuracy 0.")
    ElementTree.fromstring(best.drawing._repr_svg_())
    with pytest.raises(ResultsError):
        done.trial(99)


def test_the_nearest_topologies(done):
    near = done.similar(3, limit=3)
    assert len(near) == 3
    assert near["similarity"].is_monotonic_decreasing
    assert near["similarity"].between(0, 1).all()
    assert done.trials.loc[3, "digest"] not in set(near["digest"])


def test_a_search_shows_itself(done):
    text = done._repr_html_()
    for part in ("mine", "finished", "digits", "tiny", "5 of 5 (5 completed)", "data:image/svg+xml;base64,"):
        assert part in text
    assert f"{done.best.value:.4f}" in text
    assert repr(done) == f"Search('mine', finished, 5 trials, best val_accuracy {done.best.value:.4f})"


def test_another_session_opens_it_and_goes_further(place, shown, done, tmp_path):
    import shutil

    source = module.Path(done._settings.db)
    shutil.copytree(source.parent, tmp_path / "copy")
    search = detol.Search.open("mine", db=tmp_path / "copy" / "results.db")
    assert (search.state, len(search.trials)) == ("finished", 5)
    assert search.resume(trials=6) is search
    assert len(search.trials) == 6
    with pytest.raises(ResultsError, match="did you mean mine"):
        detol.Search.open("mien", db=tmp_path / "copy" / "results.db")


def test_a_folder_that_changes_changes_nothing(place, shown, monkeypatch):
    search = detol.Search(**QUICK, trials=1).run()
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert (search.name, len(search.trials)) == ("digits-1", 1)


def test_in_the_background_it_can_be_looked_at_stopped_and_resumed(place, shown):
    go_on = threading.Event()
    shown.at_turn = lambda: go_on.wait(30)
    search = detol.Search(**QUICK, trials=3, name="slow").start()
    assert shown.turn.wait(60)
    assert search.state == "running"
    assert len(search.trials) == 1
    assert "running" in search._repr_html_()
    assert search.wait(0) is search  # looks, and does not wait
    for again in (search.start, search.resume):
        with pytest.raises(UsageError, match="runs already"):
            again()
    threading.Timer(0.1, go_on.set).start()
    search.stop()
    assert search.state == "interrupted"
    assert shown.ends == ["interrupted: go on with: detol resume slow"]
    assert search.resume().state == "finished"
    assert [State(state) for state in search.trials["state"]] == [State.COMPLETED] * 3
    assert "all 3 trials are done" in shown.ends[-1]
    with pytest.raises(UsageError, match="was started before"):
        search.run()


def test_ctrl_c_ends_the_search_with_everything_saved(place, shown, monkeypatch):
    from detol.notebook.background import Background

    wait = Background.wait
    presses = iter([True])

    def pressed(self, seconds=None):
        if next(presses, False):
            assert shown.turn.wait(60)
            raise KeyboardInterrupt
        return wait(self, seconds)

    monkeypatch.setattr(Background, "wait", pressed)
    search = detol.Search(**QUICK, trials=200, name="long")
    with pytest.raises(SearchInterrupted, match="go on with: detol resume long"):
        search.run()
    assert search.state == "interrupted"


def test_what_goes_wrong_is_told_and_shown(place, shown):
    search = detol.Search(data="no-such-file.csv")
    with pytest.raises(DataError):
        search.run()
    assert search.state == "failed"
    assert "no-such-file.csv" in shown.ends[0]
    assert "no-such-file.csv" in search._repr_html_()
    assert not list(place.iterdir())


def test_objects_in_place_of_names(place, shown):
    space = DecisionSpace(
        "own", [Choice("width", (4, 8))], lambda d: chain(op("flatten"), op("linear", features=d["width"]))
    )
    options = {key: value for key, value in QUICK.items() if key != "space"}
    search = detol.Search(space=space, **options, trials=1).run()
    again = detol.Search.open(search.name, space=space)
    assert len(again.resume(trials=2).trials) == 2
    assert search.status.space == "own"


def test_export_writes_what_the_command_does(done, tmp_path):
    certificate = done.export(tmp_path / "best", ["python"])
    assert (tmp_path / "best" / "model.py").exists()
    assert certificate["trial"] == done.best.ref
    with pytest.raises(UsageError, match="needs an empty directory"):
        done.export(tmp_path / "best", ["python"])
