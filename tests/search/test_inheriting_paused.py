"""Searches whose rule pauses: who rests, goes on, or was settled gives its weights to children too."""

from dataclasses import replace

import pytest

import detol
from detol.execution.position import position
from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import LEFT as MOST
from detol.results.weights import NoWeights, WeightsFolder
from detol.search.controller import Controller
from detol.search.inheritance import EPOCH, NOTE, SHARE, Inheritance
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import INHERITED, Candidate, Ended, Objective, Origin, State, Trial
from detol.search.spared import CHECKPOINT, LEFT
from detol.search.task import Task
from detol.spaces.decisions import Decisions
from detol.strategies.evolution import AgeingEvolution
from detol.tracking.null import NullTracker

from .conftest import Crash, Watched
from .test_inheritance import SPACE
from .test_pausing import EPOCHS, Promotion


class Table:
    """More the wider; it rises by a hundredth an epoch."""

    def answer(self, candidate):
        score = candidate.decisions["width"] / 640 + candidate.decisions["depth"] / 1000
        return Answer({}, 9.0, [{"val_accuracy": score + epoch / 100} for epoch in range(EPOCHS)])


class Noting(Watched):
    """Sends weights; notes with each job what its parent had sent last, and of which epoch that was."""

    def __init__(self, *args, before=lambda job: None, **options):
        super().__init__(Table(), *args, **options)
        self.sent, self.there, self.before = {}, {}, before

    def submit(self, job):
        self.before(job)
        if job.candidate.parents and not job.checkpoint:
            self.there[job.number] = self.sent.get(job.candidate.parents[0])
        super().submit(job)

    def poll(self, timeout):
        events = []
        for event in super().poll(timeout):
            if isinstance(event, Ended):
                job = next(job for job in reversed(self.jobs) if job.number == event.number)
                epoch = job.until if event.state is State.PAUSED else EPOCHS
                weights = event.weights or f"weights of {event.number}".encode()
                self.sent[event.number] = (weights, epoch)
                event = replace(event, weights=weights)
            events.append(event)
        return events


def play(home, *, trials=24, database=None, store=None, reserve=0, **options):
    database, clock, warned = database or MemoryDatabase(), SimulatedClock(), []
    store = store or database.create_search("s", {}, {"digest": "d"}, Recipe())
    limits = Limits(trials=trials)
    task = Task(SPACE, Recipe(), "d", EPOCHS, (Objective("val_accuracy"),), limits=limits, inherit="morph")
    executor = Noting(clock, 1, **options)
    known = tuple(store.trials())
    keeper = WeightsFolder(home, "s", known=known, recent=64, reserve=reserve) if home else NoWeights()
    strategy = AgeingEvolution(SPACE, population=8, tournament=2, start=4, seed=1)
    parts = {"executor": executor, "store": store, "tracker": NullTracker(), "keeper": keeper, "clock": clock}
    controller = Controller(task, strategy=strategy, stopper=Promotion(), warn=warned.append, **parts)
    return controller, executor, store, warned


def children(store):
    return [t for t in store.trials() if t.candidate.parents and t.candidate.origin is not Origin.RETRAIN]


def begun(executor):
    """Returns the jobs that began trials, by number; of one that began again the last."""
    return {job.number: job for job in executor.jobs if not job.checkpoint}


def test_parents_that_rest_or_go_on_give_what_their_last_checkpoint_holds(tmp_path):
    controller, executor, store, warned = play(tmp_path)
    controller.run()
    trials, jobs = {t.number: t for t in store.trials()}, begun(executor)
    assert len(children(store)) > 10
    for child in children(store):
        (parent,) = child.candidate.parents
        weights, epoch = executor.there[child.number]
        assert jobs[child.number].parent == (trials[parent].candidate.topology, weights)
        assert jobs[child.number].candidate.transfer.parent == parent
        assert (child.inherited, child.extra[EPOCH]) == (str(parent), epoch)
        assert all(job.parent is None for job in executor.jobs if job.number == child.number and job.checkpoint)
    epochs = {child.extra[EPOCH] for child in children(store)}
    assert {1, 3} <= epochs  # of several rungs
    assert not warned


def test_checkpoints_go_as_before(tmp_path):
    """What serves children is not kept for longer: a search that is over leaves those for later searches alone."""
    controller, _, store, _ = play(tmp_path)
    controller.run()
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.checkpoint")}
    assert there <= {t.extra[LEFT] for t in store.trials() if LEFT in t.extra}
    assert 0 < len(there) <= MOST


def test_checkpoints_in_memory_serve_too():
    controller, executor, store, _ = play(None)
    controller.run()
    given = [job.parent[1] for job in begun(executor).values() if job.parent]
    assert position(1) in given
    assert len(given) == sum(bool(t.inherited) for t in store.trials())


def test_a_checkpoint_that_is_gone_means_from_scratch_with_a_note(tmp_path):
    def lose(job):
        if job.number == 12 and not job.checkpoint:
            for path in tmp_path.rglob("*.checkpoint"):
                path.unlink()

    controller, executor, store, warned = play(tmp_path, before=lose)
    controller.run()
    noted = [t for t in store.trials() if NOTE in t.extra]
    assert noted
    for trial in noted:
        assert not trial.inherited
        assert begun(executor)[trial.number].parent is None
        line = f"trial {trial.number}: the weights of trial {trial.candidate.parents[0]} are not kept"
        assert f"{line}: trained from scratch" in warned


def test_parents_that_were_settled_serve_a_longer_search(tmp_path):
    database = MemoryDatabase()
    controller, _, store, _ = play(tmp_path, trials=14, database=database)
    controller.run()
    before = {t.number: t for t in store.trials()}
    store.close()
    controller, executor, store, warned = play(tmp_path, trials=24, store=database.open_search("s"))
    controller.run()
    assert not warned
    late = [t for t in children(store) if t.number >= len(before) and t.candidate.parents[0] in before]
    settled = [t for t in late if before[t.candidate.parents[0]].state is State.STOPPED and t.inherited]
    assert settled
    for child in settled:
        parent = before[int(child.inherited)]
        assert parent.inherited  # a child of a child
        assert child.extra[EPOCH] == parent.extra[CHECKPOINT] == parent.epoch
        assert begun(executor)[child.number].parent[1] == position(parent.epoch)


def test_a_crash_costs_no_child_its_weights(tmp_path):
    whole, _, store, _ = play(tmp_path / "whole")
    whole.run()
    expected = [(t.number, t.digest, t.inherited, t.extra.get(EPOCH), t.scores) for t in store.trials()]
    for crash in range(20, 60, 13):
        database, home = MemoryDatabase(), tmp_path / str(crash)
        controller, _, store, _ = play(home, database=database, crash=crash)
        with pytest.raises(Crash):
            controller.run()
        store.close()
        controller, _, store, warned = play(home, store=database.open_search("s"))
        controller.run()
        assert [(t.number, t.digest, t.inherited, t.extra.get(EPOCH), t.scores) for t in store.trials()] == expected
        assert not warned


def test_one_that_begins_again_from_scratch_keeps_no_fact_of_what_it_had_inherited():
    """Its parent is gone and so is its checkpoint: a share of another attempt would be wrong."""
    task = Task(SPACE, Recipe(), "d", EPOCHS, (Objective("val_accuracy"),), inherit="morph")
    candidate = Candidate(Decisions(), chain(op("conv", channels=8)), Origin.MUTATE, (3,))
    extra = {INHERITED: "3", SHARE: 0.7, EPOCH: 1, "params": 9.0}
    trial = Trial(4, candidate, State.RUNNING, EPOCHS, extra=extra)
    again, _, parent = Inheritance(task, NoWeights(), lambda line: None).begun(trial)
    assert parent is None
    assert {name: value for name, value in again.extra.items() if name != NOTE} == {"params": 9.0}


def test_real_trainings_under_the_default_rule(tmp_path, monkeypatch):
    monkeypatch.setenv("DETOL_RUNS", str(tmp_path))
    result = detol.search(
        data="digits", space="tiny", strategy="evolution", trials=6, epochs=5, inherit="morph", references=False,
        executor="inline", device="cpu", tracking="off",
        options={"strategy": {"start": 3, "population": 3, "tournament": 2}},
    )  # fmt: skip
    born = [t for t in result.trials if t.candidate.origin is Origin.MUTATE]
    assert len(born) == 3
    for child in born:
        assert child.inherited == str(child.candidate.parents[0])
        assert 0 < child.extra[SHARE] <= 1
        assert 1 <= child.extra[EPOCH] <= 5
        assert child.scores is not None
    assert any(child.extra[EPOCH] < 5 for child in born)
    assert not result.best.inherited


def test_on_a_full_disk_what_inherited_does_not_rest_in_memory(tmp_path) -> None:
    """What is held there is lost when the process ends: it would begin again, from other weights of its parent."""
    controller, _, store, _ = play(tmp_path, reserve=2**62)
    controller.run()
    inherited = [trial for trial in store.trials() if trial.inherited]
    assert inherited
    unkept = [trial for trial in inherited if trial.state is State.STOPPED]
    assert all("its checkpoint could not be kept" in trial.reason for trial in unkept)
    assert [trial for trial in store.trials() if trial.state is State.COMPLETED and not trial.inherited]
