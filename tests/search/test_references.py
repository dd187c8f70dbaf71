"""Several references where a rule pauses: all train to its last milestone, the best of them to its end."""

from dataclasses import replace

import pytest

from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.protocols import Pauser
from detol.search.recipe import Recipe
from detol.search.records import Ended, Objective, State
from detol.search.task import Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.stopping.audited import audited
from detol.stopping.hyperband import Hyperband
from detol.stopping.promotion import PromotingAsha
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

from .conftest import Watched

EPOCHS, LAST = 9, 3
"""Of a training, and the last rung of promotion before its end."""
LOW, MIDDLE, HIGH = 2, 1, 4
"""Widths of the references, by what they reach; all others are better."""
SPACE = DecisionSpace(
    "widths",
    [Choice("width", tuple(range(1, 41)))],
    build=lambda d: chain(op("conv", channels=d["width"])),
    references={"low": {"width": LOW}, "high": {"width": HIGH}, "middle": {"width": MIDDLE}},
)
SCORES = {LOW: 0.05, MIDDLE: 0.1, HIGH: 0.2}


class Curves:
    """Straight curves; what references reach is lower than what all others do."""

    def answer(self, candidate):
        width = candidate.decisions["width"]
        high = SCORES.get(width, 0.5 + width / 100)
        curve = [{"val_accuracy": high * epoch / EPOCHS} for epoch in range(1, EPOCHS + 1)]
        return Answer({}, float(EPOCHS), curve)


class FullDisk(NoWeights):
    """Takes no checkpoint."""

    def rest(self, trial, checkpoint):
        return ""


def make(
    stopper=None, *, slots=1, trials=24, limits=None, keeper=None, known=(), database=None, store=None, **executor
):
    database = database or MemoryDatabase()
    store = store or database.create_search("s", {}, {"digest": "x1:0"}, Recipe(), config_digest="same")
    clock = SimulatedClock()
    workers = Watched(Curves(), clock, slots, **executor)
    limits = limits or Limits(trials=trials)
    task = Task(SPACE, Recipe(), "x1:0", EPOCHS, [Objective("val_accuracy")], limits=limits, known=frozenset(known))
    controller = Controller(
        task,
        strategy=RandomSearch(SPACE, seed=1),
        stopper=stopper or PromotingAsha(epochs=EPOCHS),
        executor=workers,
        store=store,
        tracker=NullTracker(),
        keeper=keeper or NoWeights(),
        clock=clock,
        consumed=store.consumed,
    )
    return controller, store, workers


def named(store):
    return {trial.candidate.note: trial for trial in store.trials() if trial.candidate.named}


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_all_train_to_the_last_rung_and_the_best_to_its_end(slots):
    controller, store, workers = make(slots=slots)
    outcome = controller.run()
    found = named(store)
    assert {name: trial.epoch for name, trial in found.items()} == {"low": LAST, "high": EPOCHS, "middle": LAST}
    assert found["high"].state is State.COMPLETED
    assert found["low"].reason == f"rested at epoch {LAST}: not promoted"
    assert outcome.tally.reference.number == found["high"].number
    first = [(job.until, job.checkpoint) for job in workers.jobs if job.number == found["low"].number]
    assert first == [(LAST, None)]  # not at the rungs below
    assert workers.busy == sum(trial.epoch for trial in store.trials())


def test_the_best_goes_on_as_soon_as_all_have_come_there():
    controller, store, workers = make()
    controller.run()
    number = named(store)["high"].number
    assert [job.number for job in workers.jobs[:4]] == [0, 1, 2, number]
    assert workers.jobs[3].until == 0


def test_one_that_fails_leaves_its_place_to_the_next():
    def failing(job, event):
        lost = isinstance(event, Ended) and job.candidate.note == "high" and job.checkpoint
        return replace(event, state=State.FAILED, reason="no luck", weights=None) if lost else event

    controller, store, _ = make(change=failing)
    controller.run()
    found = named(store)
    assert {name: trial.state for name, trial in found.items()} == {
        "low": State.STOPPED,
        "high": State.FAILED,
        "middle": State.COMPLETED,
    }


def test_a_reference_that_is_alone_does_not_pause():
    controller, _, workers = make(known=("low", "middle"))
    controller.run()
    assert [(job.until, job.checkpoint) for job in workers.jobs if job.number == 0] == [(0, None)]


def test_without_room_for_checkpoints_references_go_on():
    controller, store, _ = make(keeper=FullDisk(), trials=5)
    controller.run()
    assert {trial.state for trial in named(store).values()} == {State.COMPLETED}


def test_where_time_is_the_bound_references_rest_as_all_others():
    controller, store, workers = make(limits=Limits(seconds=60))
    controller.run()
    assert [job.until for job in workers.jobs[:3]] == [1, 1, 1]
    assert all(trial.state is State.STOPPED for trial in named(store).values())


@pytest.mark.parametrize(
    "stopper",
    [
        Hyperband(epochs=EPOCHS),
        audited(PromotingAsha(epochs=EPOCHS), share=0.2, references=3, seed=1),
        PromotingAsha(epochs=EPOCHS, maximum=5),
        PromotingAsha(epochs=EPOCHS, rungs=[9]),
    ],
    ids=["hyperband", "audited", "maximum", "no rung"],
)
def test_whatever_the_rule_the_best_reference_comes_to_its_end(stopper):
    assert isinstance(stopper, Pauser)
    controller, store, _ = make(stopper)
    controller.run()
    found = named(store)
    assert found["high"].state is State.COMPLETED
    assert len(found) == 3


def test_a_search_that_goes_on_knows_which_one_trains_to_its_end():
    database = MemoryDatabase()
    controller, store, _ = make(database=database, trials=24)
    controller.run()
    store.finish("finished")
    more, store, workers = make(store=database.open_search("s"), trials=30)
    more.run()
    assert all(job.number > 23 for job in workers.jobs)
    assert {name for name, trial in named(store).items() if trial.state is State.COMPLETED} == {"high"}
