"""Searches whose trials start from a parent's weights: who inherits, marks, answers, faults, the winner again."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import detol
from detol import wire
from detol.cli import app
from detol.errors import UsageError
from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.handover import weights_of
from detol.results.memory import MemoryDatabase
from detol.results.weights import WeightsFolder, load_weights
from detol.search.controller import Controller
from detol.search.inheritance import NOTE, RECORD, from_text, to_text
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import INHERITED, Ended, Objective, Origin, State, Transfer
from detol.search.task import Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.stopping.never import Never
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

SPACE = DecisionSpace(
    "inheriting",
    [Choice("width", (8, 16, 32, 64)), Choice("depth", (1, 2, 3)), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(*[op("conv", channels=d["width"], kernel=d["kernel"])] * d["depth"]),
    references={"small": {"width": 8, "depth": 1, "kernel": 3}},
)


class Table:
    """More from scratch the wider; inherited weights are worth 0.5 more."""

    def answer(self, candidate):
        score = candidate.decisions["width"] / 640 + candidate.decisions["depth"] / 1000
        score += 0.5 * (candidate.transfer is not None)
        return Answer({}, 2.0, [{"val_accuracy": score - 0.01}, {"val_accuracy": score}])


class Weighing(SimulatedExecutor):
    """Sends weights, notes jobs; may lose or crash."""

    def __init__(self, *args, lose=(), crash=10**9, **options):
        super().__init__(*args, **options)
        self.jobs, self.lose, self.crash, self.polls = [], set(lose), crash, 0

    def submit(self, job):
        self.jobs.append(job)
        super().submit(job)

    def poll(self, timeout):
        self.polls += 1
        if self.polls > self.crash:
            raise KeyError("crash")
        events = []
        for event in super().poll(timeout):
            if isinstance(event, Ended) and event.number in self.lose:
                self.lose.remove(event.number)
                event = Ended(event.number, State.LOST, "the worker died")
            elif isinstance(event, Ended):
                event = replace(event, weights=f"weights of {event.number}".encode())
            events.append(event)
        return events


def evolution(**options):
    return AgeingEvolution(SPACE, population=8, tournament=3, start=3, **options)


def play(home, *, inherit="morph", trials=14, database=None, store=None, strategy=None, name="s", recent=64, **options):
    clock, warned = SimulatedClock(), []
    database = database or MemoryDatabase()
    recipe = Recipe()
    store = store or database.create_search(name, {}, {"digest": "d"}, recipe)
    task = Task(SPACE, recipe, "d", 2, (Objective("val_accuracy"),), limits=Limits(trials=trials), inherit=inherit)
    executor = Weighing(Table(), clock, 1, **options)
    keeper = WeightsFolder(home, name, known=tuple(store.trials()), recent=recent)
    parts = {"stopper": Never(), "executor": executor, "store": store, "tracker": NullTracker()}
    controller = Controller(
        task, strategy=strategy or evolution(), keeper=keeper, clock=clock, warn=warned.append, **parts
    )
    return controller, executor, store, warned


def test_children_start_from_their_parents_and_are_marked(tmp_path):
    controller, executor, store, warned = play(tmp_path)
    controller.run()
    trials = {trial.number: trial for trial in store.trials()}
    jobs = {job.number: job for job in executor.jobs}
    children = [t for t in trials.values() if t.candidate.origin is Origin.MUTATE]
    assert children
    assert not warned
    for trial in children:
        (parent,) = trial.candidate.parents
        assert trial.inherited == str(parent)
        assert trial.extra["inherit"] == "morph"
        topology, weights = jobs[trial.number].parent
        assert topology == trials[parent].candidate.topology
        assert weights == f"weights of {parent}".encode()
        assert jobs[trial.number].candidate.transfer.parent == parent
        assert jobs[trial.number].candidate.transfer.rule == "morph"
    for trial in trials.values():
        if trial.candidate.origin in (Origin.SAMPLE, Origin.REFERENCE, Origin.RETRAIN):
            assert not trial.inherited
            assert jobs[trial.number].parent is None


def test_off_is_off(tmp_path):
    controller, executor, store, _ = play(tmp_path, inherit="off")
    controller.run()
    assert not any(job.parent for job in executor.jobs)
    assert not any(trial.inherited or NOTE in trial.extra for trial in store.trials())


def test_the_winner_is_trained_from_scratch_before_it_is_reported(tmp_path):
    controller, executor, store, _ = play(tmp_path)
    outcome = controller.run()
    best = outcome.tally.best
    assert best.inherited
    (again,) = [t for t in store.trials() if t.candidate.origin is Origin.RETRAIN]
    assert again.candidate.parents == (best.number,)
    assert again.digest == best.digest
    assert again.number == max(t.number for t in store.trials())
    assert not again.inherited
    assert again.score < best.score
    assert outcome.tally.scratch.score == max(t.score for t in store.trials() if not t.inherited)
    assert outcome.tally.trials == 14 + 1  # it is no trial of the strategy's
    assert outcome.tally.reference.number == 0
    from detol.result import conclude

    result = conclude("s", controller.task, outcome, store.trials())
    assert result.best == outcome.tally.scratch
    assert result.summary["best"]["score"] == pytest.approx(result.best.score)
    assert result.summary["inherited"]["trial"] == best.number
    assert result.summary["inherited"]["score"] == pytest.approx(best.score)
    assert result.summary["inherited"]["from"] == best.candidate.parents[0]
    assert len(executor.jobs) == len({job.number for job in executor.jobs})


def test_an_inherited_score_never_answers_for_a_training_from_scratch(tmp_path):
    database = MemoryDatabase()
    first, _, one, _ = play(tmp_path, database=database, name="a")
    first.run()
    inherited = {t.digest for t in one.trials() if t.inherited}
    scratch = {t.digest for t in one.trials() if not t.inherited}
    second, executor, store, _ = play(tmp_path, database=database, name="b", inherit="off")
    second.run()
    reused = {t.digest for t in store.trials() if t.reused}
    assert reused <= scratch
    assert {t.digest for t in store.trials()} & (inherited - scratch) <= {j.candidate.digest for j in executor.jobs}
    for trial in store.trials():
        if trial.reused:
            assert trial.score < 0.4


def test_gone_weights_mean_from_scratch_with_a_note(tmp_path):
    """Only the best are kept: children of the others train from scratch, and say so."""
    controller, executor, store, warned = play(tmp_path, recent=0, trials=30)
    controller._keeper._kept = 1
    controller.run()
    noted = [t for t in store.trials() if NOTE in t.extra]
    assert noted
    assert len(warned) == len(noted)
    jobs = {job.number: job for job in executor.jobs}
    for trial in noted:
        assert not trial.inherited
        assert jobs[trial.number].parent is None
        assert "not kept: trained from scratch" in trial.extra[NOTE]


def test_a_lost_attempt_inherits_again(tmp_path):
    controller, executor, store, _ = play(tmp_path, lose=[8, 9])
    controller.run()
    for number in (8, 9):
        first, second = [job for job in executor.jobs if job.number == number]
        assert first.parent is not None
        assert first.parent == second.parent
        assert first.candidate.transfer == second.candidate.transfer
        assert store.trials()[number].attempt == 2


@pytest.mark.parametrize("own", [False, True])
def test_a_crash_while_a_child_trains_is_taken_up_with_the_same_weights(tmp_path, own):
    strategy = _growing if own else evolution
    whole, _, store, _ = play(tmp_path / "whole", strategy=strategy(), inherit="off" if own else "morph")
    whole.run()
    expected = [(t.number, t.digest, t.inherited, t.scores) for t in store.trials()]
    for crash in range(5, 30, 6):
        database, folder = MemoryDatabase(), tmp_path / str(crash)
        options = {"strategy": strategy(), "inherit": "off" if own else "morph", "database": database}
        controller, executor, store, _ = play(folder, crash=crash, **options)
        with pytest.raises(KeyError):
            controller.run()
        store.close()
        options["strategy"] = strategy()
        controller, again, store, _ = play(folder, store=database.open_search("s"), **options)
        controller.run()
        assert [(t.number, t.digest, t.inherited, t.scores) for t in store.trials()] == expected
        cut = executor.jobs[-1]
        retried = next(job for job in again.jobs if job.number == cut.number)
        assert retried.candidate.transfer == cut.candidate.transfer
        assert retried.parent == cut.parent
    assert not any(RECORD in t.extra for t in store.trials())
    if own:
        assert any(t.inherited for t in store.trials())


@pytest.mark.parametrize("own", [False, True])
def test_after_a_crash_another_search_answers_for_a_child_as_before_it(tmp_path, own):
    """What comes with a record of its own is trained; what is answered did not begin with a parent's weights."""
    database, inherit = MemoryDatabase(), "off" if own else "morph"
    strategy = _growing if own else evolution
    options = {"database": database, "name": "b", "inherit": inherit}
    controller, executor, store, _ = play(tmp_path, strategy=strategy(), crash=25, **options)
    with pytest.raises(KeyError):
        controller.run()
    cut = executor.jobs[-1].candidate
    number = executor.jobs[-1].number
    assert store.trials()[number].inherited == str(cut.transfer.parent)
    assert store.trials()[number].state is State.RUNNING
    store.close()
    every = RandomSearch(SPACE, seed=0)
    other, _, all_, _ = play(tmp_path, database=database, name="a", inherit="off", strategy=every, trials=36)
    other.run()
    assert cut.digest in {t.digest for t in all_.trials()}
    controller, _, store, _ = play(tmp_path, store=database.open_search("b"), strategy=strategy(), **options)
    controller.run()
    trial = store.trials()[number]
    if own:
        assert (trial.reused, trial.inherited) == ("", str(cut.transfer.parent))
    else:
        assert trial.reused.startswith("a/")
        assert not {INHERITED, "inherit", "inherited"} & trial.extra.keys()


def _growing():
    """Return a strategy that gives each child a record of its own."""

    class Own(AgeingEvolution):
        def candidate(self, decisions, origin, parents=()):
            made = super().candidate(decisions, origin, parents)
            if made and made.parents:
                made = replace(made, transfer=Transfer(made.parents[0], {"1": "1"}, optimiser=True))
            return made

    return Own(SPACE, population=8, tournament=3, start=3)


def test_records_are_kept_as_json_without_loss():
    record = Transfer(3, {"a": "b"}, {"a": (0, 2)}, {"a": ((1, 0.25),)}, {"a": ((4, 2, -1.5),)}, True, "match")
    assert from_text(to_text(record)) == record
    assert from_text("") is None


def test_weights_folder_keeps_the_best_and_the_latest(tmp_path):
    controller, _, store, _ = play(tmp_path, recent=3)
    controller.run()
    trials = store.trials()
    kept = [t.number for t in trials if load_weights(tmp_path, t.weights)]
    best = sorted(trials, key=lambda t: -t.score)[:5]
    assert set(kept) == {t.number for t in best} | {t.number for t in trials[-3:]}


def test_weights_that_were_inherited_cannot_be_had_again(tmp_path):
    controller, _, store, _ = play(tmp_path)
    controller.run()
    trial = next(t for t in store.trials() if t.inherited)
    with pytest.raises(UsageError, match="would not repeat"):
        weights_of(replace(trial, weights=""), None, Recipe(), tmp_path)


def test_the_command_line(tmp_path, monkeypatch):
    """Real trainings, in this process: marks in the tables, both winners in the summary, bad values in one line."""
    monkeypatch.setenv("DETOL_RUNS", str(tmp_path))
    runner = CliRunner()
    bad = runner.invoke(app, ["search", "--data", "digits", "--inherit", "morf"])
    assert bad.exit_code != 0
    with pytest.raises(UsageError, match=r"unknown inherit 'morf'.*morph"):
        detol.config.settings(inherit="morf")
    result = detol.search(
        data="digits", space="tiny", strategy="evolution", trials=7, epochs=2, stop="none", inherit="morph",
        executor="inline", tracking="off", options={"strategy": {"start": 2, "population": 4, "tournament": 4}},
    )  # fmt: skip
    children = [t for t in result.trials if t.inherited]
    assert children
    for trial in children:
        assert 0 < trial.extra["inherited"] <= 1
    assert not result.best.inherited
    assert result.test
    done = runner.invoke(app, ["results", "top", "--json"])
    rows = json.loads(done.stdout)
    marks = {int(row["trial"].split("/")[1]): row["inherited"] for row in rows}
    assert {n for n, mark in marks.items() if mark} <= {t.number for t in children}
    assert any(marks.values())
    if result.summary["inherited"]:
        assert result.summary["best"]["trial"] != result.summary["inherited"]["trial"]
    with wire.database("", create=False) as database:
        from detol.results.query import Query

        assert Query(database).resolve(result.name).trial.number == result.best.number
