"""Progress in a notebook: one output brought up to date, escaped, and not too often; a terminal elsewhere."""

import io
from types import SimpleNamespace

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.notebook import progress as module
from detol.search.limits import Limits
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.tally import Tally
from detol.spaces.decisions import Decisions


class Output:
    """An output of a cell: everything that ever stood in it."""

    def __init__(self):
        self.shown = []

    def update(self, shown):
        self.shown.append(shown._repr_html_())


def trial(number, **changes):
    candidate = Candidate(Decisions(a=number), chain(op("identity")), Origin.MUTATE)
    return Trial(number, candidate, State.RUNNING, 9, **changes)


@pytest.fixture
def search():
    running = {3: trial(3, reports=(Report(1, {"acc": 0.5}),), curve=(0.5,)), 4: trial(4)}
    best = trial(1, scores=(0.75,))
    tally = Tally(trials=2, trained=2, stopped=1, best=best)
    task = SimpleNamespace(limits=Limits(trials=10))
    return SimpleNamespace(tally=tally, running=running, task=task, seconds=5.0)


def test_one_output_is_brought_up_to_date(search):
    output, clock = Output(), SimpleNamespace(now=0.0)
    shown = module.NotebookProgress(output, now=lambda: clock.now)
    shown.started(search, Objective("acc"))
    shown(search)
    clock.now = 2.0
    search.tally.trials = 4
    shown(search)
    first, second = output.shown
    assert '<progress value="2" max="10"' in first
    assert '<progress value="4" max="10"' in second
    assert "4/10 trials" in second
    assert "best acc 0.7500 (trial 1)" in second
    assert "60.0 trials/min" in second  # two trials in two seconds
    assert "0:06 left" in second  # six more
    assert '<td style="text-align:left">1/9</td>' in second
    assert "0.5000" in second


def test_it_is_not_drawn_more_often_than_eyes_see(search):
    output, clock = Output(), SimpleNamespace(now=0.0)
    shown = module.NotebookProgress(output, now=lambda: clock.now)
    shown.started(search, Objective("acc"))
    for step in range(100):
        clock.now = step * 0.01
        shown(search)
    assert len(output.shown) == 2


def test_what_is_said_stays_escaped_below(search):
    output = Output()
    shown = module.NotebookProgress(output, now=lambda: 0.0)
    for number in range(7):
        shown.say(f"<b>line {number}</b>")
    shown.end("<i>over</i>")
    last = output.shown[-1]
    assert "&lt;i&gt;over" in last
    assert "&lt;b&gt;line 6" in last
    assert "line 1&" not in last  # the last five
    assert "<b>" not in last


def test_a_search_without_a_bound_has_no_bar(search):
    search.task.limits = Limits()
    output = Output()
    shown = module.NotebookProgress(output, now=lambda: 0.0)
    shown.started(search, Objective("acc"))
    shown(search)
    assert "<progress" not in output.shown[0]
    assert "2 trials" in output.shown[0]


def test_without_a_notebook_it_is_told_on_standard_error(search, monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    shown = module.progress()
    assert isinstance(shown, module.TerminalProgress)
    shown.started(search, Objective("acc"))
    shown(search)
    shown.close()
    shown.end("over")
    lines = stderr.getvalue().splitlines()
    assert lines[0].startswith("2/10 trials · 2 running · 1 stopped early")
    assert lines[-1] == "over"


def test_a_shell_of_ipython_without_a_kernel_is_no_notebook(monkeypatch):
    import IPython

    assert not module.in_notebook()
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace())
    assert not module.in_notebook()
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    assert module.in_notebook()
