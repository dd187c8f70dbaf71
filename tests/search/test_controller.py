"""The controller over scripted parts: every rule of a search, without training."""

import math
from dataclasses import replace

import numpy as np
import pytest

from detol.errors import DetolError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.search.controller import Controller
from detol.search.history import History
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Objective, Origin, Report, Reported, State, Verdict
from detol.search.task import Assessment, Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.guided import Guided
from detol.strategies.random_search import RandomSearch

RECIPE = Recipe()
SPACE = DecisionSpace(
    "layers",
    [Choice("width", (8, 16, 32, 64)), Choice("depth", (1, 2, 3)), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(*[op("conv", channels=d["width"], kernel=d["kernel"])] * d["depth"]),
    references={"small": {"width": 8, "depth": 1, "kernel": 3}},
)


class TickingClock:
    """One second passes at each look."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        self.time += 1.0
        return self.time


class StillClock:
    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time


class ScriptedExecutor:
    """Runs jobs by ``script(job) -> list of scores or one State``; every poll moves each job by one epoch."""

    def __init__(self, script, slots=2):
        self.script, self.slots, self.jobs, self.done, self.cancelled, self.submitted = script, slots, {}, {}, set(), []

    def free(self):
        return self.slots - len(self.jobs)

    def submit(self, job):
        assert job.width <= self.free()
        self.jobs[job.number], self.done[job.number] = job, 0
        self.submitted.append(job)

    def cancel(self, number):
        self.cancelled.add(number)

    def poll(self, timeout):
        events = []
        for number, job in list(self.jobs.items()):
            outcome = self.script(job)
            if isinstance(outcome, Ended):
                events.append(outcome)
            elif number in self.cancelled:
                events.append(Ended(number, State.STOPPED))
            elif self.done[number] < min(job.epochs, len(outcome)):
                value = outcome[self.done[number]]
                self.done[number] += 1
                events.append(Reported(number, Report(self.done[number], {"val_accuracy": value}, 1.0)))
            else:
                events.append(Ended(number, State.COMPLETED, weights=b"w"))
            if isinstance(events[-1], Ended):
                del self.jobs[number]
        return events

    def close(self):
        pass


class Keeper:
    def keep(self, trial, weights):
        return f"weights/x/{trial.number}.safetensors"


class Always:
    def __init__(self, verdict=Verdict.CONTINUE):
        self.verdict = verdict

    def judge(self, trial, peers):
        list(peers)
        return self.verdict


class Tracker:
    def __init__(self):
        self.states = {}

    def record(self, trial, event):
        self.states[trial.number] = trial.state

    def finish(self, best, summary, export=None):
        pass

    def close(self):
        pass


def good(job):
    """Scores that depend on the topology alone."""
    width = job.candidate.decisions["width"] / 100 + job.candidate.decisions["depth"] / 1000
    return [width * epoch / job.epochs for epoch in range(1, job.epochs + 1)]


def make(script=good, *, database=None, name="s", trials=10, slots=2, strategy=None, stopper=None, store=None, **task):
    database = database or MemoryDatabase()
    store = store or database.create_search(name, {}, {"digest": "x1:0"}, RECIPE, config_digest="same")
    limits = task.pop("limits", Limits(trials=trials))
    clock, twin, warn = task.pop("clock", StillClock()), task.pop("twin", None), task.pop("warn", lambda text: None)
    made = Task(SPACE, RECIPE, "x1:0", task.pop("epochs", 3), [Objective("val_accuracy")], limits=limits, **task)
    executor = ScriptedExecutor(script, slots)
    controller = Controller(
        made,
        strategy=strategy or RandomSearch(SPACE, seed=1),
        stopper=stopper or Always(),
        executor=executor,
        store=store,
        tracker=Tracker(),
        keeper=Keeper(),
        clock=clock,
        consumed=store.consumed,
        twin=twin,
        warn=warn,
    )
    return controller, store, executor


def test_a_search_trains_as_many_trials_as_asked_and_finds_the_best():
    controller, store, _ = make(trials=10)
    outcome = controller.run()
    trials = store.trials()
    assert [trial.number for trial in trials] == list(range(10))
    assert all(trial.state is State.COMPLETED and trial.epoch == 3 for trial in trials)
    assert outcome.tally.trained == outcome.tally.trials == 10
    assert outcome.tally.best.score == max(trial.score for trial in trials)
    assert outcome.tally.best.weights
    assert outcome.ended == "all 10 trials are done"


def test_references_come_first_and_no_digest_is_tried_twice():
    controller, store, _ = make(trials=12)
    controller.run()
    trials = store.trials()
    assert trials[0].candidate.origin is Origin.REFERENCE
    assert trials[0].candidate.note == "small"
    assert len({trial.digest for trial in trials}) == 12


def test_references_train_to_their_end_whatever_the_stopper_says():
    controller, store, _ = make(trials=4, stopper=Always(Verdict.STOP))
    controller.run()
    assert [t.state for t in store.trials()] == [State.COMPLETED, State.STOPPED, State.STOPPED, State.STOPPED]


@pytest.mark.parametrize("strategy", [RandomSearch, Guided])
def test_no_network_is_tried_twice_also_while_references_run(strategy):
    controller, store, _ = make(trials=1000, slots=7, strategy=strategy(SPACE, seed=4))
    controller.run()
    assert len({trial.digest for trial in store.trials()}) == len(store.trials()) == 36


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_strategy_that_learns_repeats_itself_from_the_log(slots):
    def uneven(job):
        return good(job)[: 1 + job.number % 3]

    database, lines = MemoryDatabase(), []
    first, store, _ = make(uneven, database=database, name="a", trials=14, slots=slots, strategy=Guided(SPACE, seed=2))
    first.run()
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    strategy = Guided(SPACE, seed=2)
    second, again, executor = make(name="b", trials=14, slots=3, strategy=strategy, twin=twin, warn=lines.append)
    second.run()
    assert executor.submitted == []
    assert [t.digest for t in again.trials()] == [t.digest for t in store.trials()]
    store.finish("interrupted")
    third, _, executor = make(
        trials=16, strategy=Guided(SPACE, seed=2), store=database.open_search("a"), warn=lines.append
    )
    third.run()
    assert [job.number for job in executor.submitted] == [14, 15]
    assert lines == []


def test_references_can_be_left_out():
    controller, store, _ = make(trials=3, references=False)
    controller.run()
    assert all(trial.candidate.origin is Origin.SAMPLE for trial in store.trials())


def test_the_same_trials_with_one_worker_and_with_two():
    seen = []
    for slots in (1, 2, 5):
        controller, store, _ = make(trials=9, slots=slots)
        controller.run()
        seen.append([(t.number, t.digest, t.seed, t.curve) for t in store.trials()])
    assert seen[0] == seen[1] == seen[2]


def test_an_exhausted_space_ends_the_search_with_a_clear_line():
    controller, store, _ = make(trials=1000)
    outcome = controller.run()
    assert len(store.trials()) == SPACE.size == 36
    assert "exhausted" in outcome.ended


@pytest.mark.parametrize("state", [State.FAILED, State.OUT_OF_MEMORY, State.DIVERGED, State.TIMED_OUT])
def test_a_trial_that_ends_badly_is_a_result_and_the_search_goes_on(state):
    def script(job):
        return Ended(job.number, state, "because") if job.number % 2 else good(job)

    controller, store, _ = make(script, trials=8)
    outcome = controller.run()
    assert outcome.tally.failed == 4
    assert {t.reason for t in store.trials() if t.state is state} == {"because"}
    assert outcome.tally.best.state is State.COMPLETED
    assert all(t.score == -math.inf and t.scores is None for t in store.trials() if t.state is state)


def test_a_lost_trial_is_tried_once_more_under_its_number():
    def script(job):
        return Ended(job.number, State.LOST, "worker died") if job.number == 2 and job.attempt == 1 else good(job)

    controller, store, executor = make(script, trials=5)
    controller.run()
    trial = store.trials()[2]
    assert (trial.state, trial.attempt, trial.epoch) == (State.COMPLETED, 2, 3)
    assert trial.extra["lost_attempt_1"] == "worker died"
    assert [job.attempt for job in executor.submitted if job.number == 2] == [1, 2]


def test_a_trial_lost_twice_stays_lost():
    controller, store, _ = make(lambda job: Ended(job.number, State.LOST, "gone"), trials=3)
    outcome = controller.run()
    assert [t.state for t in store.trials()] == [State.LOST] * 3
    assert outcome.tally.best is None


def test_what_is_not_finite_never_wins():
    def script(job):
        return [math.nan] * 3 if job.number == 1 else [math.inf] * 3 if job.number == 2 else good(job)

    controller, store, _ = make(script, trials=4)
    outcome = controller.run()
    assert [t.state for t in store.trials()[1:3]] == [State.DIVERGED] * 2
    assert math.isfinite(outcome.tally.best.score)


def test_a_completed_trial_beats_a_stopped_one_of_higher_score():
    class StopFirst:
        def judge(self, trial, peers):
            return Verdict.STOP if trial.number == 1 else Verdict.CONTINUE

    def script(job):
        return [0.99] * 3 if job.number == 1 else [0.5] * 3

    controller, store, _ = make(script, trials=3, stopper=StopFirst())
    outcome = controller.run()
    assert store.trials()[1].state is State.STOPPED
    assert store.trials()[1].reason == "StopFirst at epoch 1"
    assert outcome.tally.best.number != 1
    assert outcome.tally.spared == 2


def test_an_oversized_candidate_is_refused_before_dispatch():
    def assess(candidate):
        size = candidate.decisions["width"]
        return Assessment({"params": size}, "too large" if size > 16 else "")

    controller, store, executor = make(trials=10, assess=assess)
    outcome = controller.run()
    refused = [t for t in store.trials() if t.state is State.REFUSED]
    assert refused
    assert {t.number for t in refused}.isdisjoint({job.number for job in executor.submitted})
    assert outcome.tally.trials == 10
    assert all(t.candidate.decisions["width"] <= 16 for t in store.trials() if t.state is State.COMPLETED)


def test_limits_that_leave_nothing_to_try_end_the_search():
    controller, _, _ = make(assess=lambda c: Assessment({}, "no"), limits=Limits(trials=5, refusals=7))
    outcome = controller.run()
    assert outcome.tally.trials == 0
    assert "refused" in outcome.ended


def test_the_same_search_again_trains_nothing():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", stopper=Always(), slots=3)
    first.run()
    second, again, executor = make(database=database, name="b", slots=1)
    outcome = second.run()
    assert executor.submitted == []
    assert (outcome.tally.trained, outcome.tally.reused) == (0, 10)
    assert [(t.number, t.digest, t.curve) for t in again.trials()] == [
        (t.number, t.digest, t.curve) for t in store.trials()
    ]
    assert again.trials()[3].reused == "a/3"


class LastWins:
    """A strategy whose proposals depend on the order in which it is told."""

    def __init__(self):
        self.inner, self.rng = RandomSearch(SPACE, seed=3), np.random.default_rng(0)

    def ask(self, count):
        return self.inner.ask(count)

    def tell(self, trials):
        self.inner.tell(trials)
        for trial in trials:
            if trial.score > 0.3:
                self.inner.rng.integers(trial.number + 1)


def test_an_identical_search_is_answered_whatever_the_order_was():
    database = MemoryDatabase()

    def uneven(job):  # so that trials end in another order than they started
        return good(job)[: 1 + job.number % 3]

    first, store, _ = make(uneven, database=database, name="a", slots=4, strategy=LastWins(), trials=20)
    first.run()
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    second, again, executor = make(database=database, name="b", slots=1, strategy=LastWins(), trials=20, twin=twin)
    outcome = second.run()
    assert executor.submitted == []
    assert outcome.tally.reused == 20
    assert [t.digest for t in again.trials()] == [t.digest for t in store.trials()]


def test_a_longer_identical_search_repeats_the_shorter_then_goes_on():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=6)
    first.run()
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    second, again, executor = make(database=database, name="b", trials=9, twin=twin)
    outcome = second.run()
    assert (outcome.tally.reused, outcome.tally.trained) == (6, 3)
    assert [job.number for job in executor.submitted] == [6, 7, 8]
    assert len({t.digest for t in again.trials()}) == 9


def test_a_twin_whose_trial_was_lost_is_followed_to_there():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=6)
    first.run()
    past = {t.number: t for t in store.trials()}
    past[3] = replace(past[3], state=State.LOST, scores=None)
    second, again, executor = make(name="b", trials=6, twin=History("a", store.steps(), past))
    second.run()
    assert all(t.state is State.COMPLETED for t in again.trials())
    assert 3 in {job.number for job in executor.submitted}
    assert [t.number for t in again.trials()] == list(range(6))


def test_a_twin_is_followed_by_network_not_by_decisions_alone():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=6)
    first.run()
    changed = {
        n: replace(t, candidate=replace(t.candidate, topology=chain(op("conv", kernel=9))))
        for n, t in enumerate(store.trials())
    }
    second, _, executor = make(name="b", trials=6, twin=History("a", store.steps(), changed))
    outcome = second.run()
    assert outcome.tally.reused == 0
    assert len(executor.submitted) == 6


def test_what_time_cut_short_does_not_answer_an_identical_search():
    database = MemoryDatabase()
    first, store, _ = make(
        database=database, name="a", limits=Limits(trials=4, seconds=30), clock=TickingClock(), epochs=50
    )
    first.run()
    cut = [t for t in store.trials() if t.state is State.STOPPED]
    assert cut
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    second, again, _ = make(name="b", trials=4, epochs=50, twin=twin)
    second.run()
    assert all(
        t.state is State.COMPLETED and not t.reused for t in again.trials() if t.number in {c.number for c in cut}
    )


def test_a_twins_lost_trial_is_refused_or_answered_like_any_other():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=4)
    first.run()
    past = {t.number: t for t in store.trials()}
    past[2] = replace(past[2], state=State.LOST, scores=None)
    twin = History("a", store.steps(), past)
    second, _, _ = make(database=database, name="b", trials=4, twin=twin)
    assert second.run().tally.reused == 4  # the database knows its result all the same
    size = past[2].candidate.decisions["width"]
    third, again, _ = make(
        name="c", trials=4, twin=twin, assess=lambda c: Assessment({}, "no" if c.decisions["width"] == size else "")
    )
    third.run()
    assert again.trials()[2].state is State.REFUSED


def test_a_search_whose_time_is_used_up_starts_nothing_when_it_is_resumed():
    database = MemoryDatabase()
    first, store, _ = make(database=database, limits=Limits(trials=50, seconds=40), clock=TickingClock())
    first.run()
    count = len(store.trials())
    store.finish("finished")
    second, resumed, executor = make(
        store=database.open_search("s"), limits=Limits(trials=50, seconds=40), clock=TickingClock()
    )
    outcome = second.run()
    assert not outcome.interrupted
    assert executor.submitted == []
    assert len(resumed.trials()) == count


def test_an_interrupt_while_the_last_trials_run_is_an_interrupt():
    controller, store, _ = make(lambda job: good(job)[: 1 + job.number % 3], trials=1000, slots=5)
    controller._watch = lambda search: search.interrupt() if search._ended and search.running else None
    outcome = controller.run()
    assert outcome.interrupted
    assert [t for t in store.trials() if t.state is State.RUNNING]


class Crash(Exception):
    pass


def crash_at(script, count):
    calls = iter(range(10**9))

    def crashing(job):
        if next(calls) >= count:
            raise Crash
        return script(job)

    return crashing


@pytest.mark.parametrize("moment", [0, 1, 3, 7, 12, 20, 31])
def test_a_search_killed_at_any_moment_goes_on_as_if_it_had_not_been(moment):
    undisturbed, whole, _ = make(trials=8, slots=1, strategy=LastWins())
    undisturbed.run()
    database = MemoryDatabase()
    first, store, _ = make(crash_at(good, moment), database=database, trials=8, slots=1, strategy=LastWins())
    with pytest.raises(Crash):
        first.run()
    del first
    store.finish("interrupted")
    second, resumed, _ = make(trials=8, slots=1, strategy=LastWins(), store=database.open_search("s"))
    outcome = second.run()
    assert outcome.tally.trials == 8
    assert [(t.number, t.digest, t.curve) for t in resumed.trials()] == [
        (t.number, t.digest, t.curve) for t in whole.trials()
    ]


def test_an_interrupt_leaves_running_trials_to_a_resume():
    database = MemoryDatabase()
    controller, store, _ = make(database=database, trials=6)
    polls = iter(range(100))
    controller._watch = lambda search: search.interrupt() if next(polls) == 5 else None
    outcome = controller.run()
    assert outcome.interrupted
    assert [t for t in store.trials() if t.state is State.RUNNING]
    store.finish("interrupted")
    second, resumed, _ = make(trials=6, store=database.open_search("s"))
    second.run()
    assert [t.state for t in resumed.trials()] == [State.COMPLETED] * 6


def test_the_time_budget_counts_consumed_seconds_and_stops_what_runs():
    controller, store, _ = make(limits=Limits(trials=1000, seconds=60), clock=TickingClock(), epochs=50)
    outcome = controller.run()
    assert "time is used up" in outcome.ended
    assert 60 <= outcome.seconds < 200
    assert any(t.state is State.STOPPED and "time" in t.reason for t in store.trials())


def test_a_search_whose_workers_never_come_up_says_so():
    controller, _, _ = make(slots=0, clock=TickingClock(), limits=Limits(trials=3, start_seconds=50))
    with pytest.raises(DetolError, match="none came up within 50 s"):
        controller.run()


def test_late_events_of_unknown_trials_are_ignored():
    controller, _, executor = make(trials=3)
    inner = executor.poll
    executor.poll = lambda timeout: [
        Reported(99, Report(1, {"val_accuracy": 1.0})),
        Ended(77, State.COMPLETED),
        *inner(timeout),
    ]
    assert controller.run().tally.trials == 3


def test_a_changed_strategy_is_noticed_on_resume():
    database = MemoryDatabase()
    first, store, _ = make(database=database, trials=5)
    first.run()
    store.finish("finished")
    lines = []
    strategy = RandomSearch(SPACE, seed=99)
    second, resumed, _ = make(trials=8, strategy=strategy, store=database.open_search("s"), warn=lines.append)
    second.run()
    assert len(lines) == 1
    assert len({t.digest for t in resumed.trials()}) == 8


def test_reuse_across_different_searches_counts_apart():
    database = MemoryDatabase()
    make(database=database, name="a", trials=20)[0].run()
    other, _, executor = make(database=database, name="b", trials=20, strategy=RandomSearch(SPACE, seed=2))
    outcome = other.run()
    assert outcome.tally.reused > 0
    assert outcome.tally.reused + outcome.tally.trained == 20
    assert len(executor.submitted) == outcome.tally.trained


def test_a_stopped_result_answers_only_a_search_that_would_stop_it_too():
    database = MemoryDatabase()
    make(database=database, name="a", trials=5, stopper=Always(Verdict.STOP), epochs=3)[0].run()
    same, _, executor = make(database=database, name="b", trials=5, stopper=Always(Verdict.STOP), epochs=3)
    assert same.run().tally.reused == 5
    assert not executor.submitted
    other, _, executor = make(database=database, name="c", trials=5, stopper=Always(), epochs=3)
    assert other.run().tally.trained == 4  # the reference was trained to its end


def test_a_candidate_keeps_its_digest():
    candidate = Candidate(SPACE.sample(np.random.default_rng(0)), chain(op("conv")), Origin.SAMPLE)
    assert candidate.digest is candidate.digest
