"""Strategies and stopping rules from users' own files: found, called, checked, and told apart by what is in them."""

import json

import pytest

from detol import cli, plugins, wire
from detol.errors import UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, Report, State, Trial, Verdict
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions
from detol.strategies.random_search import RandomSearch

STRATEGY = """
from detol.strategies.random_search import RandomSearch

class Mine(RandomSearch):
    def __init__(self, space, *, seed=0, twist=1):
        super().__init__(space, seed=seed + twist)

class Other:
    pass

STRATEGY = Mine
"""
STOPPER = """
from detol.search.records import Verdict

class AtOnce:
    def __init__(self, *, epochs, after=1):
        self.after = after

    def judge(self, trial, peers):
        return Verdict.STOP if trial.epoch >= self.after else Verdict.CONTINUE

STOPPER = AtOnce
"""


def trial(curve):
    candidate = Candidate(Decisions(a=1), chain(op("identity")), Origin.SAMPLE)
    reports = tuple(Report(epoch, {"score": value}) for epoch, value in enumerate(curve, start=1))
    return Trial(0, candidate, State.RUNNING, 9, reports=reports, curve=tuple(curve))


def asked_and_told(strategy):
    assert strategy.extra == 5
    strategy.tell([])
    strategy.ask(1)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(STRATEGY)
    (tmp_path / "rule.py").write_text(STOPPER)
    return tmp_path


def test_a_strategy_gets_what_it_takes_and_its_options(files):
    space = catalogue.load("tiny")
    made = wire.strategy("mine.py", space, seed=3, options={"twist": 2})
    same = RandomSearch(space, seed=5)
    assert [c.digest for c in made.ask(4)] == [c.digest for c in same.ask(4)]
    named = wire.strategy("mine.py:Mine", space)
    assert [c.digest for c in named.ask(4)] == [c.digest for c in RandomSearch(space, seed=1).ask(4)]


def test_a_rule_alone_and_joined_with_another(files):
    alone = wire.stopper("rule.py", epochs=9, options={"after": 2, "audit_share": 0})
    assert alone.after == 2
    joined = wire.stopper("rule.py+plateau", epochs=9, options={"after": 5, "patience": 3, "audit_share": 0})
    rising, flat = [0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.1, 0.1, 0.1]
    verdicts = [[joined.judge(trial(curve[:n]), []) for n in range(1, len(curve) + 1)] for curve in (rising, flat)]
    assert [each.index(Verdict.STOP) for each in verdicts] == [4, 3]  # the file's rule at epoch 5, the plateau's at 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("gone.py", "strategy file gone.py: there is no such file"),
        ("rule.py", "defines no constant STRATEGY"),
        ("mine.py:Other", "Other lacks ask and tell"),
        ("mine.py:Min", "it has mine.py:RandomSearch, mine.py:Mine"),
        ("broken.py", "strategy file broken.py, line 2: ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_file_lacks_is_told_in_one_line(files, given, message):
    (files / "broken.py").write_text("x = 1\nx / 0\n")
    with pytest.raises(UsageError, match=message) as error:
        wire.strategy(given, catalogue.load("tiny"))
    assert "\n" not in str(error.value)


def test_what_is_no_class_is_refused(files):
    (files / "number.py").write_text("STOPPER = 3\n")
    with pytest.raises(UsageError, match=r"number.py, line 1: STOPPER is int: it must be a class with judge"):
        wire.stopper("number.py", epochs=3)


def test_an_option_that_a_file_does_not_take_is_refused(files):
    with pytest.raises(UsageError, match="unknown option of mine.py 'twits': did you mean twist"):
        wire.strategy("mine.py", catalogue.load("tiny"), options={"twits": 1})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def __init__(self, space): raise RuntimeError('two\\nlines')", "line 3: RuntimeError: two, in its constr"),
        ("def ask(self, count): raise ValueError('no')", "line 3: ValueError: no, in ask"),
        ("def ask(self, count): return None", "ask must return a list of candidates, got None"),
        ("def ask(self, count): return [1]", r"ask must return a list of candidates, got \[1\]"),
        ("def ask(self, count): return super().ask(count + 1)", "at most as many .* got 2 for 1"),
        ("def tell(self, trials): return {}['told']", "line 3: KeyError: 'told', in tell"),
    ],
)
def test_a_strategy_that_raises_or_breaks_the_protocol_is_one_line(files, body, message):
    """It says where in the file; what it has besides is passed on."""
    text = ["from detol.strategies.random_search import RandomSearch", "class Mine(RandomSearch):", f"    {body}"]
    (files / "odd.py").write_text("\n".join([*text, "    extra = 5", "STRATEGY = Mine"]))
    with pytest.raises(UsageError, match=f"^strategy odd.py.*{message}") as caught:
        asked_and_told(wire.strategy("odd.py", catalogue.load("tiny"), seed=3))
    assert "\n" not in str(caught.value)


def test_paths_are_made_absolute_and_names_are_left(files):
    assert plugins.absolute("promote+rule.py:AtOnce") == f"promote+{files}/rule.py:AtOnce"
    assert plugins.absolute("optuna:TPESampler") == "optuna:TPESampler"


def test_the_content_of_files_counts_and_names_do_not(files):
    first = plugins.content(["mine.py", "promote"])
    assert first == plugins.content(["mine.py:Mine"]) != ""
    (files / "mine.py").write_text(STRATEGY + "\n# another\n")
    assert plugins.content(["mine.py"]) != first
    assert plugins.content(["guided", "promote+curve"]) == ""


def test_a_search_at_the_command_line_is_resumed_from_another_folder(files, monkeypatch, capsys):
    given = ["--data", "digits", "--space", "tiny", "--strategy", "mine.py", "--stop", "rule.py", "--no-references"]
    more = ["--executor", "inline", "--tracking", "off", "--trials", "3", "--epochs", "2", "--json"]
    db = str(files / "results.db")
    assert cli.run(["search", *given, "--set", "stop.audit_share=0", *more, "--name", "a", "--db", db]) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["trials"], first["stopped"], first["epochs"]) == (3, 3, 3)
    (files / "elsewhere").mkdir()
    monkeypatch.chdir(files / "elsewhere")
    assert cli.run(["resume", "a", "--trials", "4", "--json", "--db", db]) == 0
    assert json.loads(capsys.readouterr().out)["trials"] == 4


def test_an_edited_file_is_another_search(files, capsys):
    given = ["search", "--data", "digits", "--space", "tiny", "--strategy", "mine.py", "--trials", "2", "--epochs", "1"]
    more = ["--no-references", "--executor", "inline", "--tracking", "off", "--json", "--stop", "none"]
    found = []
    for name, text in (("a", STRATEGY), ("b", STRATEGY), ("c", STRATEGY.replace("twist=1", "twist=2"))):
        (files / "mine.py").write_text(text)
        assert cli.run([*given, *more, "--name", name]) == 0
        capsys.readouterr()
        assert cli.run(["results", "sql", f"SELECT digest FROM trials t JOIN searches s ON s.id = t.search "
                        f"WHERE s.name = '{name}' ORDER BY number", "--json"]) == 0  # fmt: skip
        found.append([row["digest"] for row in json.loads(capsys.readouterr().out)])
    space = catalogue.load("tiny")
    assert found[0] == found[1] == [c.digest for c in RandomSearch(space, seed=1).ask(2)]
    assert found[2] == [c.digest for c in RandomSearch(space, seed=2).ask(2)] != found[0]
