"""Searches whose stopper pauses: milestones, promotion, the best finished, and going on after faults."""

import math
from dataclasses import replace
from unittest.mock import Mock

import pytest

from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import NoWeights, WeightsFolder
from detol.search.answer import answer
from detol.search.controller import Controller
from detol.search.fidelity import FINISHED, Fidelity
from detol.search.history import TIME_UP, History
from detol.search.ledger import Ledger
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Objective, Origin, Report, State, Trial, Verdict
from detol.search.spared import LEFT
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.promotion import PromotingAsha
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.guided import Guided
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

from .conftest import Crash, Watched

SPACE = DecisionSpace(
    "layers",
    [Choice("width", (8, 16, 32, 64)), Choice("depth", (1, 2, 3)), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(*[op("conv", channels=d["width"], kernel=d["kernel"])] * d["depth"]),
    references={"small": {"width": 8, "depth": 1, "kernel": 3}},
)
EPOCHS = 9
RUNGS = (1, 3)


class Promotion:
    """Asynchronous successive halving by promotion: rest at epochs 1 and 3, go on when among the best third there."""

    def milestone(self, trial):
        return next((rung for rung in RUNGS if rung > trial.epoch), trial.epochs)

    def judge(self, trial, peers):
        list(peers)
        return Verdict.PAUSE if trial.epoch in RUNGS else Verdict.CONTINUE

    def promote(self, paused, peers):
        everyone = [*paused, *peers]
        for rung in reversed(RUNGS):
            there = sorted((t for t in everyone if t.epoch >= rung), key=lambda t: (-t.curve[rung - 1], t.number))
            for trial in there[: len(there) // 3]:
                if trial.state is State.PAUSED and trial.epoch == rung:
                    return trial.number
        return None


class Table:
    """Scores by decisions and epoch; those of small depth rise late. ``bad`` gives a trial's first scores as NaN."""

    def __init__(self, bad=()):
        self.bad = bad

    def answer(self, candidate):
        width, depth, kernel = candidate.decisions.values()
        high, slow = (width * 7 + depth * 13 + kernel * 29) % 31 / 31, depth / 3
        curve = [high * (1 - math.exp(-epoch * slow)) for epoch in range(1, EPOCHS + 1)]
        if kernel in self.bad:
            curve = [math.nan] * EPOCHS
        return Answer({}, float(EPOCHS), [{"val_accuracy": value} for value in curve])


class Told(RandomSearch):
    """Draws as many numbers as scores say, so that each telling matters, and notes it."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.tellings = []

    def tell(self, trials):
        super().tell(trials)
        for trial in trials:
            self.tellings.append((trial.number, trial.state, trial.epoch, trial.scores, trial.curve, trial.extra))
            if trial.scores:
                self.rng.random(1 + int(1000 * trial.score) % 7)


def make(
    *,
    database=None,
    store=None,
    name="s",
    trials=12,
    slots=1,
    strategy=None,
    stopper=None,
    keeper=None,
    table=None,
    twin=None,
    warn=lambda line: None,
    limits=None,
    references=False,
    **executor,
):
    database = database or MemoryDatabase()
    store = store or database.create_search(name, {}, {"digest": "x1:0"}, Recipe(), config_digest="same")
    clock = SimulatedClock()
    workers = Watched(table or Table(), clock, slots, **executor)
    task = Task(
        SPACE,
        Recipe(),
        "x1:0",
        EPOCHS,
        [Objective("val_accuracy")],
        limits=limits or Limits(trials=trials),
        references=references,
    )
    controller = Controller(
        task,
        strategy=strategy or Told(SPACE, seed=1),
        stopper=stopper or Promotion(),
        executor=workers,
        store=store,
        tracker=NullTracker(),
        keeper=keeper or NoWeights(),
        clock=clock,
        consumed=store.consumed,
        twin=twin,
        warn=warn,
    )
    return controller, store, workers


def files(home):
    return {path.relative_to(home).as_posix() for path in home.rglob("*.checkpoint")}


def left(store):
    """What a search that is over leaves for others."""
    return {t.extra[LEFT] for t in store.trials() if t.state is State.STOPPED and LEFT in t.extra}


def outcome(store):
    return [
        (t.number, t.digest, t.state, t.reason, t.scores, t.curve, [r.epoch for r in t.reports]) for t in store.trials()
    ]


@pytest.mark.parametrize("slots", [1, 3])
def test_most_rest_and_the_best_are_trained_to_their_end(slots):
    controller, store, workers = make(trials=24, slots=slots)
    found = controller.run()
    trials = store.trials()
    assert {t.state for t in trials} == {State.COMPLETED, State.STOPPED}
    assert all(t.reason == f"rested at epoch {t.epoch}: not promoted" for t in trials if t.state is State.STOPPED)
    assert all(t.epoch in RUNGS for t in trials if t.state is State.STOPPED)
    completed = sum(t.state is State.COMPLETED for t in trials)
    assert FINISHED <= completed <= 8
    assert workers.busy < 24 * EPOCHS / 2
    assert workers.busy == sum(t.epoch for t in trials)  # no epoch twice
    assert found.tally.best.state is State.COMPLETED
    assert (found.tally.trials, found.tally.paused, found.tally.stopped) == (24, 0, 24 - completed)
    assert not found.interrupted
    assert found.ended == "all 24 trials are done"
    best_at_three = sorted((t for t in trials if t.epoch >= 3), key=lambda t: -t.curve[2])
    assert best_at_three[0].state is State.COMPLETED


def test_curves_are_those_of_trainings_that_never_paused():
    controller, store, _ = make(trials=24)
    controller.run()
    for trial in store.trials():
        whole = [metrics["val_accuracy"] for metrics in Table().answer(trial.candidate).curve]
        assert list(trial.curve) == whole[: trial.epoch]
        assert [report.epoch for report in trial.reports] == list(range(1, trial.epoch + 1))


def test_a_resting_trial_goes_on_before_a_new_one_starts_and_the_limit_counts_those_started():
    controller, store, workers = make(trials=12)
    controller.run()
    started = []
    for job in workers.jobs:
        if job.number not in started:
            started.append(job.number)
            assert (job.until, job.checkpoint) == (1, None)
    assert started == list(range(12)) == [t.number for t in store.trials()]
    first_promotion = next(place for place, job in enumerate(workers.jobs) if job.checkpoint)
    assert first_promotion == 3  # the third at epoch 1: a third of three goes on at once
    assert workers.jobs[-1].until == 0


def test_a_free_worker_is_not_kept_waiting_for_those_that_run():
    controller, _, workers = make(trials=12, slots=4)
    controller.run()
    assert [job.number for job in workers.jobs[:4]] == [0, 1, 2, 3]


def test_with_few_trials_all_are_finished():
    controller, store, _ = make(trials=4)
    controller.run()
    assert [t.state for t in store.trials()] == [State.COMPLETED] * 4


def test_references_train_to_their_end_without_a_pause():
    controller, store, workers = make(trials=9, references=True)
    controller.run()
    assert store.trials()[0].candidate.named
    assert [(job.until, job.checkpoint) for job in workers.jobs if job.number == 0] == [(0, None)]


def test_the_strategy_is_told_at_each_rest_and_again_at_the_end():
    strategy = Told(SPACE, seed=1)
    controller, store, _ = make(trials=15, strategy=strategy)
    controller.run()
    ended = {t.number: t for t in store.trials()}
    seen = {}
    for number, state, epoch, scores, curve, _ in strategy.tellings:
        assert epoch >= seen.get(number, (0, None))[0]
        seen[number] = (epoch, state)
        assert (len(curve), scores) == (epoch, (curve[-1],))
    assert {state for _, state, *_ in strategy.tellings} == {State.PAUSED, State.COMPLETED, State.STOPPED}
    assert seen == {n: (t.epoch, t.state) for n, t in ended.items()}
    assert len(strategy.told) == 15  # the later telling replaces the earlier one


def test_a_replay_shows_the_strategy_the_trials_as_they_were():
    strategy = Told(SPACE, seed=1)
    database = MemoryDatabase()
    controller, store, _ = make(database=database, trials=15, strategy=strategy)
    controller.run()
    store.finish("finished")
    again, lines = Told(SPACE, seed=1), []
    more, _, _ = make(store=database.open_search("s"), trials=15, strategy=again, warn=lines.append)
    more.run()
    assert again.tellings == strategy.tellings
    assert lines == []
    assert again.ask(3) == strategy.ask(3)


@pytest.mark.parametrize("kind", [Told, Guided, AgeingEvolution])
def test_a_search_killed_at_any_turn_ends_as_if_it_had_not_been(kind, tmp_path):
    def strategy():
        return kind(SPACE, seed=1)

    undisturbed, whole, workers = make(trials=10, strategy=strategy())
    undisturbed.run()
    expected, turns = outcome(whole), workers.polls
    assert turns > 20
    for turn in range(0, turns, 1 if kind is Told else 5):
        database, home = MemoryDatabase(), tmp_path / f"{kind.__name__}{turn}"
        first, store, _ = make(
            database=database, trials=10, strategy=strategy(), crash=turn, keeper=WeightsFolder(home, "s")
        )
        with pytest.raises(Crash):
            first.run()
        del first
        store.close()
        store, lines = database.open_search("s"), []
        keeper = WeightsFolder(home, "s", known=tuple(store.trials()))
        second, resumed, workers = make(store=store, trials=10, strategy=strategy(), keeper=keeper, warn=lines.append)
        second.run()
        assert outcome(resumed) == expected
        assert resumed.steps() == whole.steps()
        assert lines == []
        assert files(home) == left(resumed)


def test_killed_again_and_again_no_epoch_is_recorded_twice(tmp_path):
    undisturbed, whole, _ = make(trials=10)
    undisturbed.run()
    database, store = MemoryDatabase(), None
    for _ in range(1000):  # eight turns are enough for the longest way between checkpoints
        store = database.open_search("s") if store else None
        keeper = WeightsFolder(tmp_path, "s", known=tuple(store.trials()) if store else ())
        controller, store, _ = make(database=database, store=store, trials=10, crash=8, keeper=keeper)
        try:
            controller.run()
            break
        except Crash:
            store.close()
    assert outcome(store) == outcome(whole)


def test_an_interrupt_leaves_resting_trials_to_a_resume(tmp_path):
    database, turns = MemoryDatabase(), iter(range(1000))
    controller, store, _ = make(database=database, trials=12, slots=2, keeper=WeightsFolder(tmp_path, "s"))
    controller._watch = lambda search: search.interrupt() if next(turns) == 12 else None
    found = controller.run()
    assert (found.interrupted, found.ended) == (True, "interrupted")
    resting = [t for t in store.trials() if t.state is State.PAUSED]
    assert found.tally.paused == len(resting) > 0
    assert all((tmp_path / t.weights).is_file() for t in resting)
    assert len(list(tmp_path.rglob("*.checkpoint"))) == sum(bool(t.weights) for t in store.trials())
    store.finish("interrupted")
    store = database.open_search("s")
    keeper = WeightsFolder(tmp_path, "s", known=tuple(store.trials()))
    second, resumed, workers = make(store=store, trials=12, slots=2, keeper=keeper)
    assert not second.run().interrupted
    assert all(t.state.final for t in resumed.trials())
    assert sum(t.state is State.COMPLETED for t in resumed.trials()) >= FINISHED
    at_pause = {t.number: t.epoch for t in resting}
    assert all(job.checkpoint for job in workers.jobs if job.number in at_pause)


def lost_once(number, epoch):
    done = []

    def change(job, event):
        if job.number == number and isinstance(event, Ended) and job.until > epoch and not done:
            done.append(event)
            return Ended(number, State.LOST, "worker died")
        return event

    return change


def test_a_worker_lost_after_a_checkpoint_costs_the_epochs_since():
    undisturbed, whole, _ = make(trials=10)
    undisturbed.run()
    number = next(t.number for t in whole.trials() if t.epoch > 3)
    controller, store, workers = make(trials=10, change=lost_once(number, 1))
    controller.run()
    mine = [job for job in workers.jobs if job.number == number]
    assert mine[1].checkpoint == mine[2].checkpoint is not None
    assert (mine[1].attempt, mine[2].attempt) == (1, 2)
    trial = store.trials()[number]
    assert trial.extra["lost_attempt_1"] == "worker died"
    assert [r.epoch for r in trial.reports] == list(range(1, trial.epoch + 1))
    assert outcome(store) == outcome(whole)


@pytest.mark.parametrize("damage", ["missing", "short", "other"])
def test_a_checkpoint_that_is_gone_or_damaged_costs_a_warning_and_a_new_start(damage, tmp_path):
    undisturbed, whole, _ = make(trials=10)
    undisturbed.run()

    class Damaged(WeightsFolder):
        def load(self, place):
            path = tmp_path / place
            if damage == "missing":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:-1] if damage == "short" else b'{"epochs_over": 2}')
            return super().load(place)

    lines = []
    controller, store, workers = make(trials=10, keeper=Damaged(tmp_path, "s"), warn=lines.append)
    controller.run()
    assert lines
    assert all("its checkpoint is missing or damaged; it starts again from its beginning" in line for line in lines)
    assert all(job.checkpoint is None for job in workers.jobs)
    assert [(t.number, t.curve, t.state) for t in store.trials()] == [
        (t.number, t.curve, t.state) for t in whole.trials()
    ]
    assert files(tmp_path) == left(store)


class NoRoom(NoWeights):
    def rest(self, trial, checkpoint):
        return ""


@pytest.mark.parametrize("slots", [1, 3])
def test_without_room_for_checkpoints_the_best_rest_in_memory_and_come_to_their_end(slots):
    controller, store, workers = make(trials=24, slots=slots, keeper=NoRoom())
    held = []
    controller._watch = lambda search: held.append(len(search._fidelity._memory))
    found, trials = controller.run(), store.trials()
    assert {t.state for t in trials} == {State.COMPLETED, State.STOPPED}
    assert found.tally.best.state is State.COMPLETED
    assert max(trials, key=lambda t: t.curve[0]).state is State.COMPLETED
    assert FINISHED <= max(held) <= FINISHED + slots
    assert held[-1] == 0
    gone = [t for t in trials if t.reason == f"paused at epoch {t.epoch}: its checkpoint could not be kept"]
    assert gone
    assert all(sum(o.epoch >= t.epoch and o.curve[t.epoch - 1] > t.score for o in trials) >= FINISHED for t in gone)
    assert workers.busy == sum(t.epoch for t in trials)  # no epoch twice


def test_what_rested_in_memory_begins_again_when_the_search_goes_on_later():
    database, turns, lines = MemoryDatabase(), iter(range(1000)), []
    controller, store, _ = make(database=database, trials=12, keeper=NoRoom())
    controller._watch = lambda search: search.interrupt() if next(turns) == 12 else None
    controller.run()
    rested = {t.number for t in store.trials() if t.state is State.PAUSED}
    store.finish("interrupted")
    store = database.open_search("s")
    controller, store, workers = make(store=store, trials=12, keeper=NoRoom(), warn=lines.append)
    assert controller.run().tally.best.state is State.COMPLETED
    again = {job.number for job in workers.jobs if job.number in rested}
    assert again
    assert len(lines) == len(again)
    assert all("it starts again from its beginning" in line for line in lines)
    for trial in store.trials():
        assert [report.epoch for report in trial.reports] == list(range(1, trial.epoch + 1))


class GoOn(Promotion):
    """Looks at each milestone and lets all go on."""

    def judge(self, trial, peers):
        return Verdict.CONTINUE


@pytest.mark.parametrize("keeper", [NoWeights, NoRoom])
def test_what_need_not_rest_goes_on_at_once_before_other_work_also_from_memory(keeper):
    controller, store, workers = make(trials=3, stopper=GoOn(), keeper=keeper())
    controller.run()
    assert [(job.number, job.until) for job in workers.jobs] == [(n, u) for n in range(3) for u in (1, 3, 0)]
    assert all(t.state is State.COMPLETED and t.epoch == EPOCHS for t in store.trials())
    assert workers.busy == 3 * EPOCHS
    assert all(asked for asked, _ in store.steps()[:-1])
    assert [told for _, told in store.steps()] == [(), (0,), (1,), (2,)]  # what did not rest is told once


def test_going_on_from_memory_survives_a_lost_worker():
    controller, store, workers = make(trials=1, stopper=GoOn(), keeper=NoRoom(), change=lost_once(0, 1))
    controller.run()
    assert [(job.checkpoint is None, job.attempt) for job in workers.jobs][:3] == [(True, 1), (False, 1), (False, 2)]
    assert (store.trials()[0].state, store.trials()[0].epoch) == (State.COMPLETED, EPOCHS)


def test_the_time_limit_of_a_trial_is_one_of_all_its_parts():
    controller, store, workers = make(trials=3, stopper=GoOn(), limits=Limits(trials=3, trial_seconds=5.5))
    controller.run()
    assert [(job.until, job.limit) for job in workers.jobs[:3]] == [(1, 5.5), (3, 4.5), (0, 2.5)]
    assert all((t.state, t.epoch) == (State.TIMED_OUT, 5) for t in store.trials())


def test_a_winner_trained_from_scratch_neither_rests_nor_is_answered_by_what_was_stopped():
    first, store, _ = make(trials=4)
    first.run()
    task, known = first.task, replace(store.trials()[0], state=State.STOPPED)
    again = replace(known.candidate, origin=Origin.RETRAIN)
    assert task.spares(again)
    assert not task.spares(known.candidate)
    trial = replace(known, candidate=known.candidate, state=State.RUNNING, reports=(), curve=(), scores=None)
    stop = StopAll()
    assert answer(trial, [known], stop, [], task.objectives).state is State.STOPPED
    assert answer(replace(trial, candidate=again), [known], stop, [], task.objectives) is None


class StopAll(Promotion):
    def judge(self, trial, peers):
        return Verdict.STOP


class StopAtRung(Promotion):
    def judge(self, trial, peers):
        return Verdict.STOP if trial.number % 2 and trial.epoch == 1 else super().judge(trial, peers)


def test_a_stop_at_a_milestone_is_a_stop_though_the_job_had_paused():
    controller, store, _ = make(trials=8, stopper=StopAtRung())
    controller.run()
    for trial in store.trials():
        if trial.number % 2:
            assert (trial.state, trial.reason, trial.epoch) == (State.STOPPED, "StopAtRung at epoch 1", 1)


class PauseAnywhere(Promotion):
    def judge(self, trial, peers):
        return Verdict.PAUSE

    def milestone(self, trial):
        return min(3, trial.epochs) if trial.epoch < 3 else trial.epochs


def test_a_pause_between_milestones_waits_for_the_milestone():
    controller, store, _ = make(trials=8, stopper=PauseAnywhere())
    controller.run()
    assert {t.epoch for t in store.trials()} <= {3, EPOCHS}


def test_what_is_not_finite_never_rests():
    controller, store, _ = make(trials=12, table=Table(bad=(5,)))
    controller.run()
    bad = [t for t in store.trials() if t.candidate.decisions["kernel"] == 5]
    assert bad
    assert all(t.state is State.DIVERGED and t.epoch == 1 for t in bad)


def test_when_one_of_the_best_fails_the_next_takes_its_place():
    def change(job, event):
        if isinstance(event, Ended) and job.until == 0 and event.number == first and event.state is State.COMPLETED:
            return Ended(event.number, State.FAILED, "boom")
        return event

    undisturbed, whole, _ = make(trials=20)
    undisturbed.run()
    first = next(t.number for t in whole.trials() if t.state is State.COMPLETED)
    controller, store, _ = make(trials=20, change=change)
    controller.run()
    assert store.trials()[first].state is State.FAILED
    assert sum(t.state is State.COMPLETED for t in store.trials()) >= FINISHED


def test_at_the_end_of_the_time_what_rests_is_stopped():
    controller, store, _ = make(limits=Limits(trials=30, seconds=20.0))
    found = controller.run()
    assert "time is used up" in found.ended
    stopped = [t for t in store.trials() if t.state is State.STOPPED]
    assert stopped
    assert {t.reason for t in stopped} == {TIME_UP}
    assert not any(t.state is State.PAUSED for t in store.trials())


def test_an_exhausted_space_finishes_its_best_too():
    controller, store, _ = make(trials=1000)
    found = controller.run()
    assert "exhausted" in found.ended
    assert len(store.trials()) == 36
    assert sum(t.state is State.COMPLETED for t in store.trials()) >= FINISHED


def test_the_same_search_again_trains_nothing():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=14, slots=2)
    first.run()
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    lines = []
    second, again, workers = make(database=database, name="b", trials=14, twin=twin, warn=lines.append)
    found = second.run()
    assert (workers.jobs, lines) == ([], [])
    assert found.tally.reused == 14
    assert [row[:2] + row[4:] for row in outcome(again)] == [row[:2] + row[4:] for row in outcome(store)]


def test_an_interrupted_twin_is_followed_to_what_still_rested():
    database, turns = MemoryDatabase(), iter(range(1000))
    first, store, _ = make(database=database, name="a", trials=14)
    first._watch = lambda search: search.interrupt() if next(turns) == 15 else None
    first.run()
    twin = History("a", store.steps(), {t.number: t for t in store.trials()})
    second, again, _ = make(name="b", trials=14, twin=twin)
    second.run()
    assert all(t.state.final for t in again.trials())
    assert len({t.digest for t in again.trials()}) == 14


def test_completed_results_answer_a_pausing_search_and_rested_ones_tell_their_rungs():
    database = MemoryDatabase()
    first, store, _ = make(database=database, name="a", trials=14)
    first.run()
    known = {t.digest: t for t in store.trials()}
    second, again, workers = make(database=database, name="b", trials=14, strategy=Told(SPACE, seed=2))
    second.run()
    assert any(known[t.digest].state is State.STOPPED for t in again.trials() if t.digest in known)
    for trial in again.trials():
        earlier = known.get(trial.digest)
        assert bool(trial.reused) == bool(earlier and trial.epoch == earlier.epoch)
        if earlier:
            assert trial.reports[: earlier.epoch] == earlier.reports  # none is worse off than it was
    assert workers.busy == sum(t.epoch for t in again.trials() if not t.reused)  # what went on began anew: no file


def test_a_resting_trial_answers_nobody():
    database, turns = MemoryDatabase(), iter(range(1000))
    first, store, _ = make(database=database, name="a", trials=14)
    first._watch = lambda search: search.interrupt() if next(turns) == 9 else None
    first.run()
    resting = next(t for t in store.trials() if t.state is State.PAUSED)
    assert store.known(resting.digest, Recipe().digest, "x1:0", EPOCHS) == []


def test_a_stopper_that_promotes_what_does_not_rest_is_an_error():
    class Wrong(Promotion):
        def promote(self, paused, peers):
            return 99

    controller, _, _ = make(stopper=Wrong())
    with pytest.raises(ValueError, match="Wrong promoted trial 99"):
        controller.run()


def test_a_longer_resume_goes_on_with_new_trials_beside_what_rested():
    database = MemoryDatabase()
    first, store, _ = make(database=database, trials=10)
    first.run()
    before = outcome(store)
    store.finish("finished")
    second, resumed, workers = make(store=database.open_search("s"), trials=16)
    second.run()
    assert outcome(resumed)[:10] == before
    assert {job.number for job in workers.jobs} == set(range(10, 16))


def test_old_logs_of_plain_numbers_are_replayed():
    database = MemoryDatabase()
    first, store, _ = make(database=database, trials=6, stopper=GoOn())
    first.run()
    assert all(isinstance(number, int) for _, told in store.steps() for number in told)
    twin = History("a", [(asked, list(told)) for asked, told in store.steps()], {t.number: t for t in store.trials()})
    second, _, workers = make(name="b", trials=6, stopper=GoOn(), twin=replace(twin))
    second.run()
    assert workers.jobs == []


@pytest.mark.parametrize("order", [(4, 7), (7, 4)])
def test_of_equals_the_first_is_finished_first_in_whichever_order_they_came_to_rest(order):
    """A resume restores those that rest by their numbers."""
    objectives = (Objective("val_accuracy"),)
    ledger = Ledger(Mock(), Mock(), objectives)
    candidate = Candidate(Decisions(), chain(), Origin.SAMPLE)
    for number in order:
        reports = tuple(Report(epoch, {}) for epoch in (1, 2, 3))
        curve = (0.1 * number / 7, 0.5, 0.95)
        ledger.resting[number] = Trial(
            number, candidate, State.PAUSED, 9, reports=reports, curve=curve, scores=curve[-1:]
        )
    task = Task(SPACE, Recipe(), "data", 9, objectives)
    fidelity = Fidelity(task, PromotingAsha(epochs=9), NoWeights(), ledger, Mock())
    assert [fidelity.finisher().number for _ in order] == [4, 7]
