"""A search that time bounds: references compete, and the best have time to come to their end."""

from types import SimpleNamespace

import pytest

from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.search.controller import Controller
from detol.search.fidelity import FINISHED, Fidelity
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.task import Assessment, Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.audited import Audited, audited
from detol.stopping.promotion import PromotingAsha
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

EPOCHS = 9
SPACE = DecisionSpace(
    "layers",
    [Choice("width", tuple(range(8, 72))), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(op("conv", channels=d["width"], kernel=d["kernel"])),
    references={"slow": {"width": 71, "kernel": 7}},
)


class Curves:
    """Straight curves to a score that is known from the width; the reference is good and takes ten times as long."""

    def answer(self, candidate: Candidate) -> Answer:
        width = int(candidate.decisions["width"])
        curve = [{"val_accuracy": width / 100 * epoch / EPOCHS} for epoch in range(1, EPOCHS + 1)]
        return Answer(curve[-1], 90.0 if width == 71 else float(EPOCHS), curve)


class Heavy(Curves):
    """What costs more takes longer, the most expensive ones half of the time of a search for one epoch."""

    def answer(self, candidate: Candidate) -> Answer:
        found = super().answer(candidate)
        return Answer(found.metrics, EPOCHS * (cost(candidate) / 600) ** 1.5, found.curve)


def cost(candidate: Candidate) -> float:
    return float(candidate.decisions["width"] * candidate.decisions["kernel"] ** 2)


class Keeper:
    """Keeps checkpoints as their own places."""

    def keep(self, trial, weights):
        return ""

    def rest(self, trial, checkpoint):
        return checkpoint.decode()

    def stay(self, trial, place):
        return ""

    def load(self, place):
        return place.encode()

    def drop(self, place):
        pass


def searched(seconds: float, workers: int, seed: int, *, table=Curves, share=0.0, references=True, **rule):
    store = MemoryDatabase().create_search("s", {}, {"digest": "x1:0"}, Recipe(), config_digest="same")
    clock = SimulatedClock()
    limits, rank = Limits(seconds=seconds), [Objective("val_accuracy")]
    known = lambda candidate: Assessment({"multiply_adds": cost(candidate)})  # noqa: E731
    stopper = PromotingAsha(epochs=EPOCHS, **(rule or {"grace": 1}))
    task = Task(SPACE, Recipe(), "x1:0", EPOCHS, rank, limits=limits, references=references, assess=known)
    outcome = Controller(
        task,
        strategy=RandomSearch(SPACE, seed=seed),
        stopper=audited(stopper, share=share, seed=seed),
        executor=SimulatedExecutor(table(), clock, workers),
        store=store,
        tracker=NullTracker(),
        keeper=Keeper(),
        clock=clock,
    ).run()
    return outcome, store.trials()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("seconds", [25.0, 60.0, 200.0])
def test_somebody_comes_to_the_end_in_time(seconds, workers, seed):
    outcome, trials = searched(seconds, workers, seed)
    assert outcome.seconds <= seconds + 10  # an epoch of the reference is cut where it is over
    best = outcome.tally.best
    assert best is not None
    assert best.state is State.COMPLETED
    # What was finished had been the best of those that came as far: nobody better was left resting at its rung.
    left = [trial for trial in trials if trial.state is State.STOPPED and trial.epoch >= 3]
    assert all(trial.score <= best.score for trial in left)


def test_a_reference_does_not_take_all_of_the_time():
    _, trials = searched(60.0, 1, 0)
    assert trials[0].candidate.named
    assert trials[0].state is State.STOPPED
    assert sum(trial.state is State.COMPLETED for trial in trials) >= 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_are_finished_before_the_time_is_over(seed):
    # Hardly anybody is promoted. Seven more epochs of each take 7 s: five of them are a small part of the time.
    _, trials = searched(200.0, 1, seed, references=False, grace=2, eta=100)
    best = sorted((trial for trial in trials if trial.epoch >= 2), key=lambda trial: trial.curve[1], reverse=True)
    done = sum(trial.state is State.COMPLETED for trial in best[:FINISHED])
    assert done >= FINISHED - 1  # one may have come when the others were on their way


@pytest.mark.parametrize("seed", range(10))
def test_a_new_trial_does_not_take_the_time_that_the_best_needs(seed):
    outcome, _ = searched(40.0, 1, seed, table=Heavy, references=False, grace=1)
    assert outcome.tally.best.state is State.COMPLETED


def test_what_the_audit_spares_rests_when_it_cannot_come_to_its_end():
    done, rested = 0, 0
    for seed in range(10):
        _, trials = searched(40.0, 2, seed, table=Heavy, share=0.3, references=False, grace=1)
        rule = audited(PromotingAsha(epochs=EPOCHS), share=0.3, seed=seed)
        assert isinstance(rule, Audited)
        for trial in trials:
            if rule.spared(trial.number) and trial.curve:
                done += trial.state is State.COMPLETED
                if trial.reports[0].seconds > 40 / EPOCHS:  # its first epoch tells that there is no time for nine
                    assert trial.epoch == 1
                    rested += 1
    assert done > 5
    assert rested > 5


def test_no_more_than_a_third_of_the_time_is_kept_for_finishing():
    # The five would take 35 s, more than half of the time that is left: they are not waited for.
    _, trials = searched(60.0, 1, 0, grace=2, eta=100)
    assert 1 <= sum(trial.state is State.COMPLETED for trial in trials) <= 3
    assert sum(trial.epoch for trial in trials if trial.state is State.STOPPED) >= 15


def ahead(resting, seconds, *, new, best=None, rule=None):
    """Which of those that rest trains to its end before a new one starts, with so many seconds left."""
    woken = []
    task = Task(SPACE, Recipe(), "x1:0", 27, [Objective("val_accuracy")], limits=Limits(seconds=100.0))
    ledger = SimpleNamespace(
        resting={trial.number: trial for trial in resting},
        running={},
        tally=SimpleNamespace(best=best),
        wake=lambda number, **_: woken.append(number) or number,
    )
    rule = rule or PromotingAsha(epochs=27)
    return Fidelity(task, rule, Keeper(), ledger, print).ahead(new, seconds)


def tried(number, curve, state=State.PAUSED):
    """A trial whose epochs took a second each."""
    candidate = Candidate(Decisions({"width": 8 + number, "kernel": 3}), chain(), Origin.SAMPLE)
    reports = tuple(Report(epoch, {}, 1.0) for epoch in range(1, len(curve) + 1))
    scores = (curve[-1],) if curve else None
    known = {"reports": reports, "curve": tuple(curve), "scores": scores, "extra": {"multiply_adds": 100.0}}
    return Trial(number, candidate, state, 27, **known)


RESTING = [tried(number, [0.1 * number]) for number in range(1, 6)]


@pytest.mark.parametrize(("seconds", "expected"), [(29.0, 5), (30.0, None), (28.0, None)])
def test_the_best_goes_first_when_a_new_one_would_take_its_time(seconds, expected):
    # It needs 26 s, and a tenth more to be safe: 28.6. A new one takes a second; with less than 28.6 it is too late.
    assert ahead(RESTING, seconds, new=tried(9, [], State.RUNNING)) == expected


def test_one_that_reported_nothing_is_not_the_best_and_does_no_harm():
    assert ahead([*RESTING, tried(6, [])], 29.0, new=tried(9, [], State.RUNNING)) == 5


@pytest.mark.parametrize(("curve", "expected"), [([0.6] * 27, None), ([0.001] * 27, 5)])
def test_one_that_completed_stands_for_the_best_only_if_it_was_as_good(curve, expected):
    done = tried(7, curve, State.COMPLETED)
    assert ahead(RESTING, 29.0, new=tried(9, [], State.RUNNING), best=done) == expected


def test_a_new_one_that_trains_to_its_end_at_once_is_foretold_by_all_of_its_epochs():
    rule = PromotingAsha(epochs=27, rungs=[27])
    new = tried(9, [], State.RUNNING)
    assert ahead(RESTING, 55.0, new=new, rule=rule) == 5  # 27 s for the new one, 28.6 for the best
    assert ahead(RESTING, 56.0, new=new, rule=rule) is None
