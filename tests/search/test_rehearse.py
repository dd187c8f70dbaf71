"""A rehearsal does what the controller does with the same curves in the same order."""

import numpy as np
import pytest

from detol.execution.simulated import Answer, SimulatedClock, SimulatedExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial, Verdict
from detol.search.rehearse import NOBODY, rehearse
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.asha import Asha
from detol.stopping.curve import CurveStop
from detol.stopping.hyperband import Hyperband
from detol.stopping.joined import Joined
from detol.stopping.never import Never
from detol.stopping.pasha import Pasha
from detol.stopping.promotion import PromotingAsha
from detol.tracking.null import NullTracker

EPOCHS, COUNT = 18, 30
SPACE = DecisionSpace("curves", [Choice("n", tuple(range(COUNT)))], lambda d: chain(op("linear", features=d["n"] + 1)))
RULES = {
    "never": Never(),
    "asha": Asha(epochs=EPOCHS, grace=1),
    "promote": PromotingAsha(epochs=EPOCHS),
    "hyperband": Hyperband(epochs=EPOCHS),
    "pasha": Pasha(epochs=EPOCHS),
    "promote+curve": Joined(PromotingAsha(epochs=EPOCHS), CurveStop(epochs=EPOCHS)),
}


def curves(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    level, size, speed = (rng.uniform(low, high, (COUNT, 1)) for low, high in ((0.6, 0.9), (0.2, 0.5), (0.4, 1.0)))
    return level - size * np.arange(1, EPOCHS + 1) ** -speed + rng.normal(0, 0.003, (COUNT, EPOCHS))


def as_trials(values: np.ndarray) -> list[Trial]:
    reports = tuple(Report(epoch, {}) for epoch in range(1, EPOCHS + 1))
    return [
        Trial(number, NOBODY, State.COMPLETED, EPOCHS, reports=reports, curve=tuple(curve))
        for number, curve in enumerate(values.tolist())
    ]


class Table:
    def __init__(self, values):
        self.values = values

    def answer(self, candidate):
        curve = self.values[candidate.decisions["n"]]
        return Answer({}, float(EPOCHS), [{"val_accuracy": float(value)} for value in curve])


class Listed:
    def __init__(self):
        self.left = list(range(COUNT))

    def ask(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        decided = [Decisions(n=number) for number in taken]
        return [Candidate(decisions, SPACE.decode(decisions), Origin.SAMPLE) for decisions in decided]

    def tell(self, trials):
        pass


def controlled(values, rule):
    clock = SimulatedClock()
    store = MemoryDatabase().create_search("s", {}, {"digest": "x1:0"}, Recipe())
    Controller(
        Task(SPACE, Recipe(), "x1:0", EPOCHS, [Objective("val_accuracy")], limits=Limits(trials=COUNT)),
        strategy=Listed(),
        stopper=rule,
        executor=SimulatedExecutor(Table(values), clock, 1),
        store=store,
        tracker=NullTracker(),
        keeper=NoWeights(),
        clock=clock,
    ).run()
    return store.trials()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", list(RULES))
def test_epochs_and_winner_are_those_of_the_controller(name, seed):
    values = curves(seed)
    found, trials = rehearse(as_trials(values), RULES[name]), controlled(values, RULES[name])
    assert [trial.epoch for trial in found.trials] == [trial.epoch for trial in trials]
    assert found.epochs == sum(trial.epoch for trial in trials)
    best = max((t for t in trials if t.state is State.COMPLETED), key=lambda trial: (trial.score, -trial.number))
    assert found.best == best.number


class Hopeless(PromotingAsha):
    """Finds all hopeless but those of epoch 1, once nothing is left to start."""

    def judge(self, trial, peers):
        peers = list(peers)
        late = len(peers) == COUNT - 1 and trial.state is State.PAUSED and trial.epoch > 1
        return Verdict.STOP if late else super().judge(trial, peers)


def test_who_is_hopeless_in_the_end_is_not_finished():
    values = curves(2)
    trials = controlled(values, Hopeless(epochs=EPOCHS, maximum=3))
    why = [trial.reason for trial in trials if trial.epoch == 3]
    assert why
    assert {reason for reason in why if "before it was finished" in reason} == {
        "Hopeless at epoch 3, before it was finished"
    }


def test_a_curve_that_is_known_in_part_ends_there():
    short = Trial(0, NOBODY, State.STOPPED, EPOCHS, reports=(Report(1, {}),), curve=(0.5,))
    found = rehearse([short, *as_trials(curves(3))], Never())
    assert (found.trials[0].state, found.trials[0].epoch) == (State.STOPPED, 1)
    assert found.best is not None


def test_several_workers_train_the_same_trials():
    known = as_trials(curves(4))
    for workers in (1, 3, 8):
        found = rehearse(known, RULES["promote"], workers=workers)
        assert len(found.trials) == COUNT
        assert not any(trial.state is State.RUNNING for trial in found.trials)
