"""Several references where a rule pauses: all train to its last milestone, the best of them to its end."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.search.contest import Contest
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.protocols import Pauser
from detol.search.recipe import Recipe
from detol.search.records import CONTENDS, Candidate, Ended, Objective, Origin, Report, State, Trial, Verdict
from detol.search.spared import KNOWN
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.audited import audited
from detol.stopping.hyperband import Hyperband
from detol.stopping.joined import Joined
from detol.stopping.never import Never
from detol.stopping.promotion import PromotingAsha
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

from .conftest import Watched

EPOCHS, LAST = 9, 3
"""Of a training, and the last rung of promotion before its end."""
LOW, MIDDLE, HIGH, BEST = 2, 1, 4, 3
"""Widths of the references, by what they reach; all others are better."""
SPACE = DecisionSpace(
    "widths",
    [Choice("width", tuple(range(1, 41)))],
    build=lambda d: chain(op("conv", channels=d["width"])),
    references={"low": {"width": LOW}, "high": {"width": HIGH}, "middle": {"width": MIDDLE}},
)
FOUR = DecisionSpace(
    "four", SPACE.choices, build=SPACE.decode, references={**SPACE.references, "best": {"width": BEST}}
)
SCORES = {LOW: 0.05, MIDDLE: 0.1, HIGH: 0.2, BEST: 0.25}


class Curves:
    """Straight curves; what references reach is lower than what all others do."""

    def answer(self, candidate):
        width = candidate.decisions["width"]
        high = SCORES.get(width, 0.5 + width / 100)
        curve = [{"val_accuracy": high * epoch / EPOCHS, "val_loss": 1.0} for epoch in range(1, EPOCHS + 1)]
        return Answer({}, float(EPOCHS), curve)


class FullDisk(NoWeights):
    """Takes no checkpoint."""

    def rest(self, trial, checkpoint):
        return ""


def make(
    stopper=None,
    *,
    slots=1,
    trials=24,
    limits=None,
    keeper=None,
    known=(),
    database=None,
    store=None,
    space=SPACE,
    more=(),
    table=None,
    **executor,
):
    database = database or MemoryDatabase()
    store = store or database.create_search("s", {}, {"digest": "x1:0"}, Recipe(), config_digest="same")
    clock = SimulatedClock()
    workers = Watched(table or Curves(), clock, slots, **executor)
    limits = limits or Limits(trials=trials)
    objectives = [Objective("val_accuracy"), *more]
    task = Task(space, Recipe(), "x1:0", EPOCHS, objectives, limits=limits, known=frozenset(known))
    controller = Controller(
        task,
        strategy=RandomSearch(space, seed=1),
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


def test_where_time_is_the_bound_references_contend_if_there_is_time_for_it():
    # Three epochs of each, and six more of the best, are half of 30 s.
    controller, store, workers = make(limits=Limits(seconds=30))
    outcome = controller.run()
    found = named(store)
    assert found["high"].state is State.COMPLETED
    assert outcome.tally.reference.number == found["high"].number
    assert [job.until for job in workers.jobs if job.number == found["low"].number][:2] == [1, LAST]
    assert all(trial.epoch >= LAST for trial in found.values())


@pytest.mark.parametrize(("seconds", "slots", "contend"), [(29, 1, 2), (20, 1, 1), (10, 2, 1), (8, 1, 0), (30, 3, 3)])
def test_no_more_references_contend_than_half_of_the_time_is_enough_for(seconds, slots, contend):
    controller, store, _ = make(limits=Limits(seconds=seconds), slots=slots)
    controller.run()
    assert sum(CONTENDS in trial.extra for trial in named(store).values()) == contend


class Slow(Curves):
    """One reference takes so many seconds for an epoch; all that are no references are worse than they are."""

    def __init__(self, width, seconds):
        self._width, self._seconds = width, seconds

    def answer(self, candidate):
        found = super().answer(candidate)
        if candidate.decisions["width"] == self._width:
            return replace(found, seconds=self._seconds * EPOCHS)
        low = [{**metrics, "val_accuracy": metrics["val_accuracy"] / 100} for metrics in found.curve]
        return found if candidate.decisions["width"] in (LOW, HIGH) else replace(found, curve=low)


def test_those_that_contend_do_not_wait_until_there_is_no_time_for_them():
    controller, store, _ = make(limits=Limits(seconds=60), slots=2, table=Slow(MIDDLE, 53.0))
    outcome = controller.run()
    found = named(store)
    assert found["middle"].epoch <= 1
    assert found["high"].state is State.COMPLETED
    assert outcome.tally.best.number == found["high"].number


def test_those_that_contend_do_not_wait_for_one_that_never_rests():
    rule = Hyperband(epochs=EPOCHS)  # the fourth trial has no rung before its end
    controller, store, _ = make(rule, limits=Limits(seconds=140), slots=2, space=FOUR, table=Slow(BEST, 12.0), known=())
    controller.run()
    found = named(store)
    assert CONTENDS not in found["best"].extra
    assert found["high"].state is State.COMPLETED
    assert found["high"].extra["simulated_end"] < 108  # not after the slow one


def test_references_that_came_a_part_of_the_way_elsewhere_contend():
    database = MemoryDatabase()
    before, store, _ = make(database=database, limits=Limits(seconds=3))
    before.run()
    assert {trial.epoch for trial in named(store).values()} == {1}
    store = database.create_search("t", {}, {"digest": "x1:0"}, Recipe(), config_digest="other")
    controller, _, _ = make(store=store, limits=Limits(seconds=60))
    controller.run()
    found = named(store)
    assert all(trial.extra[KNOWN] == 1 for trial in found.values())
    assert all(trial.epoch >= LAST for trial in found.values())
    assert found["high"].state is State.COMPLETED


class Impatient(Never):
    """Stops whatever it sees after the first epoch, but for trials that have come far."""

    def judge(self, trial, peers):
        return Verdict.STOP if 1 < trial.epoch <= LAST else Verdict.CONTINUE


def test_one_that_contends_is_not_stopped_by_the_rule():
    rule = Joined(PromotingAsha(epochs=EPOCHS), Impatient())
    controller, store, _ = make(rule, limits=Limits(seconds=60))
    controller.run()
    found = named(store)
    assert found["high"].state is State.COMPLETED
    assert all(trial.epoch >= LAST for trial in found.values())
    assert all(trial.epoch < LAST for trial in store.trials() if not trial.candidate.named)


def test_with_several_objectives_and_time_as_the_bound_references_rest_as_all_others():
    controller, store, workers = make(limits=Limits(seconds=60), more=[Objective("val_loss", minimise=True)])
    controller.run()
    assert [job.until for job in workers.jobs[:3]] == [1, 1, 1]
    assert not any(CONTENDS in trial.extra for trial in named(store).values())


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


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_the_rule_does_not_let_one_go_on_before_all_have_come(slots):
    # The best of the first three is among the best third there before the fourth has started.
    controller, store, _ = make(space=FOUR, slots=slots)
    controller.run()
    found = named(store)
    assert {name for name, trial in found.items() if trial.state is State.COMPLETED} == {"best"}
    assert {trial.epoch for name, trial in found.items() if name != "best"} == {LAST}


def test_with_fewer_trials_than_references_the_best_that_was_tried_comes_to_its_end():
    controller, store, _ = make(space=FOUR, trials=2)
    controller.run()
    assert named(store)["high"].state is State.COMPLETED


def test_with_several_objectives_all_train_to_their_end():
    controller, store, _ = make(more=[Objective("val_loss", minimise=True)])
    controller.run()
    assert {trial.state for trial in named(store).values()} == {State.COMPLETED}


def test_a_winner_that_is_trained_from_scratch_does_not_contend():
    controller, _, _ = make()
    candidate = Candidate(Decisions({"width": 9}), SPACE.decode({"width": 9}), Origin.RETRAIN, (3,), "of trial 3")
    trial = Trial(30, candidate, State.RUNNING, EPOCHS)
    assert candidate.named
    assert controller._fidelity.milestone(trial) == 0
    assert not controller._fidelity._contest.has(trial)


def reference(number, curve, state=State.PAUSED):
    """A reference with a curve."""
    candidate = Candidate(Decisions({"width": number + 1}), chain(), Origin.REFERENCE, note=str(number))
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, candidate, state, 27, reports=reports, curve=tuple(curve), scores=(curve[-1],))


def contest(resting=(), done=(), running=()):
    """A contest with these references."""
    task = Task(FOUR, Recipe(), "x1:0", 27, [Objective("val_accuracy")])
    tally = SimpleNamespace(baselines=list(done))
    numbered = {"resting": resting, "running": running, "awaited": ()}
    parts = {name: {trial.number: trial for trial in trials} for name, trials in numbered.items()}
    return Contest(task, PromotingAsha(epochs=27), SimpleNamespace(tally=tally, waiting=[], **parts))


def test_one_that_completed_is_compared_by_what_it_had_at_the_rung():
    won = reference(0, [0.30] * 9 + [0.80] * 18, State.COMPLETED)
    # Answered from elsewhere: it was lower at the rung, and ends higher.
    answered = reference(1, [0.26] * 9 + [0.90] * 18, State.COMPLETED)
    rests = reference(2, [0.28] * 9)
    assert contest([rests], [won, answered]).winner(started=True) is None
    assert contest([rests], [answered]).winner(started=True) == 2


def test_references_known_unequally_far_are_compared_after_as_many_epochs():
    far, strong = reference(0, [0.1] * 9 + [0.3] * 11), reference(1, [0.2] * 9)
    assert contest([far, strong]).winner(started=True) == 1


def test_nobody_wins_while_some_are_on_their_way():
    first, second = reference(0, [0.3] * 9), reference(1, [0.2] * 3, State.RUNNING)
    assert contest([first]).winner(started=False) is None
    assert contest([first]).held(started=False) == {0}
    assert contest([first], running=[second]).winner(started=True) is None
    assert contest([first], running=[second]).held(started=True) == {0}
    assert contest([first]).held(started=True) == frozenset()


def test_of_equal_scores_the_older_wins():
    assert contest([reference(1, [0.3] * 9), reference(0, [0.3] * 9)]).winner(started=True) == 0
