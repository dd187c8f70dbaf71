"""Figures of a search in a notebook: those of its report, as plotly draws them."""

import pytest

import detol
from detol.errors import UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.notebook import search as module
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace


class Quiet:
    """Shows nothing."""

    def __getattr__(self, name):
        return lambda *_: None

    def __call__(self, search):
        pass


def network(decisions):
    layer = op("linear", features=decisions["width"], activation=decisions["act"])
    return chain(op("flatten"), *[layer] * decisions["layers"])


SPACE = DecisionSpace(
    "dense",
    [Choice("width", (2, 8, 16, 32)), Choice("act", ("relu", "tanh")), Choice("layers", (1, 2, 3))],
    network,
)


def searched(folder, **settings):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "progress", Quiet)
        return detol.Search(
            data="digits", strategy="random", executor="inline", tracking="off", db=folder / "results.db", **settings
        ).run()


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """22 of 24 networks, some of them stopped early."""
    folder = tmp_path_factory.mktemp("runs")
    return searched(folder, space=SPACE, stop="median", trials=22, epochs=3, name="figures")


def lines(figure):
    return {trace.name: trace for trace in figure.data if trace.mode and "lines" in trace.mode}


def dots(figure):
    return sum(len(trace.x) for trace in figure.data if trace.mode and "markers" in trace.mode)


def test_the_best_so_far_never_falls_and_ends_at_the_best(search):
    for against in ("trials", "epochs", "time"):
        figure = search.plot_progress(against)
        best = lines(figure)["best so far"]
        assert list(best.y) == sorted(best.y)
        assert best.y[-1] == search.best.value
        assert against.rstrip("s") in figure.layout.xaxis.title.text or against == "time"


def test_an_unknown_budget_is_refused(search):
    with pytest.raises(UsageError, match="unknown budget to plot against 'epoch': did you mean epochs"):
        search.plot_progress("epoch")


def test_every_scored_trial_is_on_the_front_figure(search):
    figure = search.plot_front()
    front = search.front()
    drawn = [trace for trace in figure.data if trace.name == "front" and "markers" in (trace.mode or "")]
    assert sorted(drawn[0].x) == sorted(front["params"])
    assert dots(figure) >= search.trials["val_accuracy"].notna().sum()


def test_curves_hold_every_report(search):
    figure = search.plot_curves()
    heights = {value for trace in figure.data for value in trace.y if value is not None}
    assert set(search.curves()["val_accuracy"]) == heights


def test_importance_names_the_decisions(search):
    figure = search.plot_importance(resamples=5)
    assert set(figure.layout.yaxis.ticktext) >= set(search.decisions.columns)
    options = search.plot_importance(options=True, resamples=5)
    assert any("width = 32" in label for label in options.layout.yaxis.ticktext)


@pytest.mark.parametrize("name", ["plot_lineage", "plot_workers"])
def test_the_others_are_figures_too(search, name):
    figure = getattr(search, name)()
    assert figure.to_plotly_json()["layout"]


def test_what_there_is_too_little_for_says_so_and_a_report_is_written_once(tmp_path):
    search = searched(tmp_path, space="tiny", stop="none", trials=2, epochs=1)
    figure = search.plot_importance()
    assert "at least 20" in figure.layout.annotations[0].text
    assert not figure.data
    written = search.report(tmp_path / "report.html")
    assert written["trials"] == 2
    text = (tmp_path / "report.html").read_text()
    assert "detol search --data digits --space tiny" in text
    with pytest.raises(UsageError, match="exists already"):
        search.report(tmp_path / "report.html")
    assert search.report(tmp_path / "report.html", force=True)["trials"] == 2


def test_a_search_without_a_score_has_no_figures(tmp_path):
    search = searched(tmp_path, space="tiny", trials=1, epochs=1, max_params=1)
    with pytest.raises(UsageError, match="no trial"):
        search.plot_progress()
    assert search._repr_html_()
