"""Searches whose trials have widths of their own: the controller with a policy, on simulated workers."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest

from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights
from detol.scaling.auto import Auto
from detol.scaling.forecast import Forecast
from detol.scaling.link import Link
from detol.scaling.machine import Machine
from detol.scaling.rates import KINDS, Rate
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin, State
from detol.search.task import Task
from detol.search.widths import FORECAST, REASON, WIDTHS, Width
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.never import Never
from detol.stopping.promotion import PromotingAsha
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

from .conftest import Crash, Watched

EPOCHS = 9
SIZES = (1, 2, 3, 4, 100)
SPACE = DecisionSpace(
    "sizes",
    [Choice("seconds", SIZES), Choice("copy", tuple(range(1, 30)))],
    build=lambda d: chain(op("linear", features=d["seconds"]), op("linear", features=d["copy"])),
)
SERIAL = 0.1


class Scaled(Forecast):
    """An epoch takes the seconds of its candidate's decision, a tenth of which no width divides."""

    def __init__(self):
        machine = Machine("m", "cpu", dict.fromkeys(KINDS, Rate(1e9)), Link(1e9))
        super().__init__(machine, shape=(4,), outputs=2, samples=1000)

    def epoch_seconds(self, trial, width):
        return float(trial.candidate.decisions["seconds"]) * (SERIAL + (1 - SERIAL) / width)


class Table:
    def answer(self, candidate):
        seconds, copy = candidate.decisions["seconds"], candidate.decisions["copy"]
        best = (seconds * 7 + copy * 13) % 31 / 31
        curve = [{"val_accuracy": best * (1 - 0.5**epoch)} for epoch in range(1, EPOCHS + 1)]
        whole = float(seconds) * EPOCHS
        return Answer({}, whole, curve, wide=lambda width: whole * (SERIAL + (1 - SERIAL) / width))


class Listed:
    def __init__(self, sizes):
        self.left = [Decisions(seconds=seconds, copy=copy) for copy, seconds in enumerate(sizes, 1)]
        self.calls = []

    def ask(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        self.calls.append(("ask", count))
        return [Candidate(decided, SPACE.decode(decided), Origin.SAMPLE) for decided in taken]

    def tell(self, trials):
        self.calls.append(("tell", [(trial.number, trial.epoch, trial.score) for trial in trials]))


class Always:
    """A policy of given widths, by the number of the trial."""

    def __init__(self, *ranks):
        self.ranks, self.asked = ranks, []

    def choose(self, leg, situation):
        self.asked.append((leg, situation))
        return Width(min(self.ranks[leg.trial.number % len(self.ranks)], situation.workers), "as told")


def search(
    strategy, *, workers=4, widths=None, stopper=None, store=None, keeper=None, crash=math.inf, trials=20, **task
):
    clock = SimulatedClock()
    store = store or MemoryDatabase().create_search("s", {}, {"digest": "x1:0"}, Recipe())
    made = Task(SPACE, Recipe(), "x1:0", EPOCHS, [Objective("val_accuracy")], limits=Limits(trials=trials),
                widths=widths, references=False, **task)  # fmt: skip
    executor = Watched(Table(), clock, workers, crash=crash)
    controller = Controller(
        made,
        strategy=strategy,
        stopper=stopper or Never(),
        executor=executor,
        store=store,
        tracker=NullTracker(),
        keeper=keeper or NoWeights(),
        clock=clock,
    )
    with contextlib.suppress(Crash):
        controller.run()
    return clock.now(), list(store.trials()), executor


def test_each_job_is_as_wide_as_the_policy_says_and_the_trial_says_why():
    _, trials, executor = search(Listed([1, 2, 3, 4]), widths=Always(1, 3, 4, 2), trials=4)
    assert [trial.width for trial in trials] == [1, 3, 4, 2]
    assert {job.number: job.width for job in executor.jobs} == {0: 1, 1: 3, 2: 4, 3: 2}
    assert {trial.extra[REASON] for trial in trials} == {"as told"}
    assert all(trial.state is State.COMPLETED for trial in trials)


def test_a_trial_that_wants_more_workers_than_are_free_waits_and_nobody_overtakes_it():
    policy = Always(2, 3, 1, 1)
    _, _, executor = search(Listed([4, 4, 1, 1]), widths=policy, trials=4)
    assert [job.number for job in executor.jobs] == [0, 1, 2, 3]  # trial 1 waits for trial 0; 2 and 3 wait for 1
    assert [situation.free for leg, situation in policy.asked if leg.trial.number == 1] == [2, *[2] * 8, 4]


def test_a_policy_that_wants_too_much_gets_what_there_is():
    class Greedy:
        def choose(self, leg, situation):
            return Width(99, "all and more")

    _, trials, _ = search(Listed([2, 3]), widths=Greedy(), trials=2)
    assert [(trial.width, trial.state) for trial in trials] == [(4, State.COMPLETED)] * 2


def test_the_policy_sees_who_runs_who_waits_and_what_is_left():
    policy = Always(2, 3, 1, 1, 1)
    search(Listed([4, 4, 1, 1, 1]), widths=policy, trials=5)
    leg, situation = policy.asked[0]
    assert (leg.until, situation.free, situation.workers, situation.left) == (EPOCHS, 4, 4, 1)
    assert [other.trial.number for other in situation.waiting] == [1, 2, 3]
    leg, situation = policy.asked[2]  # trial 1 again, after the first epoch of trial 0
    assert leg.trial.number == 1
    assert [(other.trial.number, other.trial.width, other.epochs) for other in situation.running] == [(0, 2, 8)]
    assert situation.running[0].seconds == 0.0


def mixed(seed, count=24):
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(1, 5)) for _ in range(count - 2)] + [100, 100]
    rng.shuffle(sizes)
    return sizes


def auto_and_fixed(seed, stop):
    def seconds(widths, width=1):
        stopper = PromotingAsha(epochs=EPOCHS) if stop == "promote" else None
        return search(Listed(mixed(seed)), widths=widths, width=width, stopper=stopper, trials=24)[0]

    prior = [Candidate(Decisions(seconds=s, copy=1), SPACE.decode(Decisions(seconds=s, copy=1)), Origin.SAMPLE)
             for s in mixed(99)]  # fmt: skip
    return seconds(Auto(Scaled(), prior=lambda: prior, least=0.0)), seconds(None), seconds(None, width=4)


@pytest.mark.parametrize("stop", ["none", "promote"])
def test_auto_is_about_as_soon_as_the_better_fixed_width_and_sooner_on_the_whole(stop):
    auto, one, all_ = zip(*(auto_and_fixed(seed, stop) for seed in range(6)), strict=True)
    assert [ours for ours, *fixed in zip(auto, one, all_, strict=True) if ours > 1.15 * min(fixed)] == []
    assert sum(auto) < min(sum(one), sum(all_))


def test_widths_change_no_score_and_no_number():
    def curves(widths):
        return [(t.number, t.digest, t.curve, t.seed) for t in search(Listed(mixed(3)), widths=widths, trials=24)[1]]

    assert curves(Auto(Scaled())) == curves(None)


def test_a_paused_trial_goes_on_at_another_width_and_says_so():
    class Later:
        def choose(self, leg, situation):
            return Width(min(4 if leg.trial.epoch else 1, situation.workers), "wider later")

    _, trials, executor = search(
        Listed([1, 2, 3, 4, 1, 2]), widths=Later(), stopper=PromotingAsha(epochs=EPOCHS), trials=6
    )
    gone_on = [trial for trial in trials if trial.state is State.COMPLETED]
    assert gone_on
    for trial in gone_on:
        legs = [(job.width, job.checkpoint is not None) for job in executor.jobs if job.number == trial.number]
        assert legs[0] == (1, False)
        assert all(leg == (4, True) for leg in legs[1:])
        first = next(job for job in executor.jobs if job.number == trial.number)
        assert trial.extra[WIDTHS] == f"1@0,4@{first.until}"
        assert trial.width == 4
        assert [report.epoch for report in trial.reports] == list(range(1, EPOCHS + 1))


@pytest.mark.parametrize("crash", [1, 3, 7, 12, 20, 33])
@pytest.mark.parametrize("strategy", [RandomSearch, AgeingEvolution])
def test_a_resumed_search_asks_and_tells_as_one_that_was_not_interrupted(crash, strategy):
    def trials(crash):
        database, keeper = MemoryDatabase(), NoWeights()
        store = database.create_search("s", {}, {"digest": "x1:0"}, Recipe())
        made = Auto(Scaled())
        search(strategy(SPACE, seed=5), widths=made, crash=crash, store=store, keeper=keeper, trials=16)
        told = list(store.steps())
        if crash < math.inf:
            store.close()
            store = database.open_search("s")
            assert list(store.steps()) == told
            search(strategy(SPACE, seed=5), widths=made, store=store, keeper=keeper, trials=16)
        return list(store.trials())

    whole = trials(math.inf)
    again = trials(crash)
    assert len(again) == len(whole) == 16
    assert all(trial.state is State.COMPLETED for trial in again)
    # What was asked before the crash is the same; a lost attempt is counted, its curve is what it was.
    same = {trial.digest: trial.curve for trial in whole}
    for trial in again:
        assert trial.curve == same.get(trial.digest, trial.curve)
        assert len(trial.reports) == EPOCHS


def test_what_was_foretold_is_kept_of_trials_that_have_ended():
    seen = []

    class Noting(Auto):
        def choose(self, leg, situation):
            seen.append([(t.number, t.extra.get(FORECAST), t.seconds / t.epoch) for t in situation.ended])
            return super().choose(leg, situation)

    search(Listed([2, 3, 4, 1, 2, 3]), widths=Noting(Scaled()), workers=2, trials=6)
    assert seen[-1]
    for _, foretold, took in seen[-1]:
        assert foretold == pytest.approx(took)


def test_left_counts_neither_the_trial_itself_nor_more_than_the_space_has():
    policy = Always(1)
    search(RandomSearch(SPACE, seed=0), widths=policy, workers=1, trials=3)
    assert [situation.left for _, situation in policy.asked] == [2, 1, 0]
    small = DecisionSpace("two", [Choice("seconds", (1, 2))], build=SPACE.decode)
    assert small.size == 2
    from detol.search.seats import proposals_left

    assert proposals_left(math.inf, 2, 1) == 1
    assert proposals_left(5, None, 100) == 5
    assert proposals_left(-1, 10, 0) == 0


def test_without_a_policy_nothing_is_written_about_widths():
    _, trials, _ = search(Listed([1, 2]), width=2, trials=2)
    assert all(not {REASON, WIDTHS, FORECAST} & set(trial.extra) and trial.width == 2 for trial in trials)
    assert replace(trials[0]).width == 2
