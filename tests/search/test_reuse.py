"""What a search takes over from others: curves that tell rungs, checkpoints that are continued, and by which rule."""

import math
from dataclasses import replace

import pytest

from detol.execution.simulated import Answer, SimulatedClock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.memory import MemoryDatabase
from detol.results.weights import WeightsFolder
from detol.search.controller import Controller
from detol.search.fidelity import FINISHING
from detol.search.history import TIME_UP, History
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Ended, Objective, Origin, State, Verdict
from detol.search.spared import CHECKPOINT, CONTINUED, KNOWN, LEFT, OWN, SCHEDULE, SPARED_EPOCHS, SPARED_SECONDS
from detol.search.task import Task
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.stopping.promotion import PromotingAsha
from detol.strategies.guided import Guided
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

from .conftest import Crash, Watched

SPACE = DecisionSpace(
    "layers",
    [Choice("width", (8, 16, 32, 64)), Choice("depth", (1, 2, 3)), Choice("kernel", (3, 5, 7))],
    build=lambda d: chain(*[op("conv", channels=d["width"], kernel=d["kernel"])] * d["depth"]),
)
EPOCHS = 9
CONSTANT = Recipe(schedule="constant", warmup=0.0)


class AllGoOn(PromotingAsha):
    """Lets all go on that rest, in the order in which they came."""

    def promote(self, paused, peers):
        return min((trial.number for trial in paused), default=None)


def curve_of(candidate, epochs):
    width, depth, kernel = candidate.decisions.values()
    high, slow = (width * 7 + depth * 13 + kernel * 29) % 31 / 31, depth / 3
    return [high * (1 - math.exp(-epoch * slow)) for epoch in range(1, epochs + 1)]


class Table:
    """Scores by decisions and epoch, a second each."""

    def __init__(self, epochs=EPOCHS):
        self.epochs = epochs

    def answer(self, candidate):
        curve = [{"val_accuracy": value} for value in curve_of(candidate, self.epochs)]
        return Answer({}, float(self.epochs), curve)


class Never:
    def judge(self, trial, peers):
        return Verdict.CONTINUE


class StopAt:
    """Stops at an epoch, never pauses."""

    def __init__(self, epoch):
        self.epoch = epoch

    def judge(self, trial, peers):
        return Verdict.STOP if trial.epoch >= self.epoch else Verdict.CONTINUE


def make(
    home,
    database,
    name="a",
    *,
    store=None,
    trials=14,
    strategy=None,
    stopper=None,
    seed=0,
    reuse="always",
    epochs=EPOCHS,
    recipe=None,
    limits=None,
    slots=1,
    twin=None,
    inherit="off",
    warn=lambda line: None,
    space=SPACE,
    **executor,
):
    recipe = recipe or Recipe()
    store = store or database.create_search(name, {}, {"digest": "x1:0"}, recipe, config_digest=name)
    clock = SimulatedClock()
    workers = Watched(Table(epochs), clock, slots, **executor)
    controller = Controller(
        Task(
            space,
            recipe,
            "x1:0",
            epochs,
            [Objective("val_accuracy")],
            seed=seed,
            limits=limits or Limits(trials=trials),
            references=False,
            reuse=reuse,
            inherit=inherit,
        ),
        strategy=strategy or RandomSearch(SPACE, seed=1),
        stopper=stopper or PromotingAsha(epochs=epochs),
        executor=workers,
        store=store,
        tracker=NullTracker(),
        keeper=WeightsFolder(home, store.name, known=tuple(store.trials())),
        clock=clock,
        consumed=store.consumed,
        twin=twin,
        warn=warn,
    )
    return controller, store, workers


def searched(home, database, name="a", **options):
    controller, store, workers = make(home, database, name, **options)
    found = controller.run()
    store.finish("finished")
    return found, store, workers


def outcome(store):
    facts = (CONTINUED, KNOWN, SPARED_EPOCHS, SPARED_SECONDS, LEFT)
    return [
        (t.number, t.digest, t.state, t.reason, t.scores, t.curve, t.seed, t.reused, [t.extra.get(f) for f in facts])
        for t in store.trials()
    ]


def check_curves(store):
    for trial in store.trials():
        assert list(trial.curve) == curve_of(trial.candidate, EPOCHS)[: trial.epoch]
        assert [report.epoch for report in trial.reports] == list(range(1, trial.epoch + 1))


def test_what_was_stopped_is_known_to_its_rung_and_goes_on_from_its_checkpoint(tmp_path):
    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database, trials=24)
    left = {t.digest: t for t in first.trials() if LEFT in t.extra}
    assert {t.epoch for t in left.values()} == {1, 3}
    found, second, workers = searched(tmp_path, database, "b", strategy=RandomSearch(SPACE, seed=2), trials=30)
    check_curves(second)
    earlier = {t.digest: t for t in first.trials()}
    overlap = [t for t in second.trials() if t.digest in earlier]
    assert len(overlap) > 10
    for trial in overlap:
        source = earlier[trial.digest]
        assert trial.seed == source.seed
        assert trial.epoch >= source.epoch
        if trial.epoch == source.epoch:
            assert trial.reused == f"a/{source.number}"
            assert trial.seconds == 0
            assert SPARED_EPOCHS not in trial.extra
        else:
            assert trial.reused == ""
            assert trial.extra[CONTINUED] == f"a/{source.number}"
            assert trial.extra[SPARED_EPOCHS] == trial.extra[SPARED_SECONDS] == source.epoch
            assert trial.seconds == trial.epoch - source.epoch
    gone_on = [t for t in overlap if not t.reused]
    assert gone_on
    jobs = {job.number: job for job in reversed(workers.jobs)}
    assert all(jobs[t.number].checkpoint for t in gone_on)
    spared = sum(t.extra[SPARED_EPOCHS] for t in gone_on)
    assert workers.busy == sum(t.epoch for t in second.trials() if not t.reused) - spared
    tally = found.tally
    assert tally.epochs == workers.busy
    assert tally.continued == len(gone_on)
    assert tally.answered == spared + sum(t.epoch for t in second.trials() if t.reused)
    assert tally.trained + tally.reused == tally.trials == 30


def test_without_the_file_the_known_epochs_are_trained_again_and_told_once(tmp_path):
    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database)
    for path in tmp_path.rglob("*.checkpoint"):
        path.unlink()
    _, second, workers = searched(tmp_path, database, "b", strategy=RandomSearch(SPACE, seed=2), trials=30)
    check_curves(second)
    earlier = {t.digest: t for t in first.trials()}
    again = [t for t in second.trials() if t.digest in earlier and not t.reused]
    assert again
    jobs = {job.number: job for job in reversed(workers.jobs)}
    for trial in again:
        assert trial.extra[KNOWN] == earlier[trial.digest].epoch
        assert SPARED_EPOCHS not in trial.extra
        assert jobs[trial.number].checkpoint is None
        assert jobs[trial.number].seed == earlier[trial.digest].seed
        assert trial.seconds == trial.epoch  # all of it was trained here
    assert workers.busy == sum(t.epoch for t in second.trials() if not t.reused)


def test_a_checkpoint_that_vanishes_while_it_is_needed_costs_a_line_and_a_new_start(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database)
    lines = []
    controller, store, workers = make(
        tmp_path, database, "b", strategy=RandomSearch(SPACE, seed=2), trials=30, warn=lines.append
    )
    rested = []

    def vanish(search):
        if not rested and search._ledger.resting:
            rested.extend(search._ledger.resting)
            for path in tmp_path.glob("weights/a/*.checkpoint"):
                path.unlink()

    controller._watch = vanish
    controller.run()
    check_curves(store)
    assert workers.busy == sum(t.epoch - t.extra.get(SPARED_EPOCHS, 0) for t in store.trials() if not t.reused)


def test_a_checkpoint_of_another_training_is_found_out_and_costs_a_new_start(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database)
    lines = []

    def refuse(job, event):
        if job.checkpoint and isinstance(event, Ended) and job.number not in refused:
            refused.append(job.number)
            return Ended(event.number, State.FAILED, "CheckpointError: the checkpoint is of another training")
        return event

    refused = []
    _, store, workers = searched(
        tmp_path, database, "b", strategy=RandomSearch(SPACE, seed=2), trials=30, change=refuse, warn=lines.append
    )
    check_curves(store)
    assert refused
    assert not any(t.state is State.FAILED for t in store.trials())
    assert sum("it starts again from its beginning" in line for line in lines) == len(refused)
    for number in refused:
        jobs = [job for job in workers.jobs if job.number == number]
        place = next(place for place, job in enumerate(jobs) if job.checkpoint)
        assert jobs[place + 1].checkpoint is None


def test_a_rule_that_never_pauses_goes_on_from_a_checkpoint_at_once_and_else_begins_anew(tmp_path):
    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database)
    earlier = {t.digest: t for t in first.trials()}
    _, second, workers = searched(tmp_path, database, "b", stopper=Never())
    check_curves(second)
    assert all(t.state is State.COMPLETED for t in second.trials())
    for trial in second.trials():
        source = earlier[trial.digest]
        assert bool(trial.reused) == (source.state is State.COMPLETED)
        if not trial.reused:
            assert trial.extra[SPARED_EPOCHS] == source.epoch
    for path in tmp_path.rglob("*.checkpoint"):
        path.unlink()
    _, third, workers = searched(tmp_path, MemoryDatabase(), "a")
    assert third.trials()[0].seed == first.trials()[0].seed
    database = MemoryDatabase()
    searched(tmp_path, database, "c")
    for path in tmp_path.rglob("*.checkpoint"):
        path.unlink()
    _, fourth, workers = searched(tmp_path, database, "d", stopper=Never(), seed=5)
    assert workers.busy == sum(t.epoch for t in fourth.trials() if not t.reused)
    assert not any(CONTINUED in t.extra for t in fourth.trials())


def test_what_this_rule_would_have_stopped_on_the_way_is_answered_as_stopped(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database)
    _, second, workers = searched(tmp_path, database, "b", stopper=StopAt(1))
    resting = [t for t in second.trials() if t.state is State.STOPPED and t.reused]
    assert resting
    assert all(t.epoch == 1 for t in resting)
    assert workers.jobs == []


@pytest.mark.parametrize(
    ("reuse", "seed", "known"),
    [("always", 0, True), ("always", 7, True), ("same-seed", 0, True), ("same-seed", 7, False), ("never", 0, False)],
)
def test_who_answers_whom(tmp_path, reuse, seed, known):
    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database)
    controller, second, workers = make(tmp_path, database, "b", reuse=reuse, seed=seed)
    controller.run()
    assert bool(sum(bool(t.reused) or CONTINUED in t.extra for t in second.trials())) == known
    assert {t.digest for t in second.trials()} == {t.digest for t in first.trials()}
    if known:
        assert {t.digest: t.seed for t in second.trials()} == {t.digest: t.seed for t in first.trials()}
    else:
        assert workers.busy == sum(t.epoch for t in second.trials())
        others = {t.digest: t.seed for t in first.trials()}
        assert all((t.seed == others[t.digest]) == (seed == 0) for t in second.trials())


def test_with_never_a_search_still_answers_its_own_duplicates(tmp_path):
    class Twice(RandomSearch):
        """Proposes each candidate a second time."""

        def ask(self, count):
            if getattr(self, "last", None):
                given, self.last = self.last, None
                return given
            self.last = list(super().ask(1))
            return self.last

    database = MemoryDatabase()
    searched(tmp_path, database)
    _, store, workers = searched(
        tmp_path, database, "b", stopper=Never(), strategy=Twice(SPACE, seed=1), reuse="never", trials=6
    )
    assert [t.reused for t in store.trials()] == ["", "b/0", "", "b/2", "", "b/4"]
    assert len(workers.jobs) == 3


@pytest.mark.parametrize("kind", [RandomSearch, Guided])
def test_a_search_that_reuses_ends_after_a_kill_at_any_turn_as_if_it_had_not_been(kind, tmp_path):
    def begin(home):
        database = MemoryDatabase()
        searched(home, database, trials=14)
        return database

    options = {"strategy": None, "trials": 18}
    controller, whole, workers = make(
        tmp_path / "0", begin(tmp_path / "0"), "b", **options | {"strategy": kind(SPACE, seed=2)}
    )
    controller.run()
    expected, turns = outcome(whole), workers.polls
    assert any(CONTINUED in t.extra and not t.reused for t in whole.trials())
    for turn in range(0, turns, 5 if kind is RandomSearch else 11):
        home, lines = tmp_path / f"{turn}.", []
        database = begin(home)
        first, store, _ = make(home, database, "b", crash=turn, **options | {"strategy": kind(SPACE, seed=2)})
        with pytest.raises(Crash):
            first.run()
        del first
        store.close()
        again = kind(SPACE, seed=2)
        second, resumed, _ = make(
            home, database, store=database.open_search("b"), warn=lines.append, **options | {"strategy": again}
        )
        second.run()
        assert outcome(resumed) == expected
        assert resumed.steps() == whole.steps()
        assert lines == []


def test_after_a_resume_the_next_ask_is_the_one_it_would_have_been(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database)
    strategy = Guided(SPACE, seed=2)
    searched(tmp_path, database, "b", strategy=strategy)
    for path in tmp_path.rglob("*.checkpoint"):  # what was known then is on record, whatever became of the files
        path.unlink()
    again = Guided(SPACE, seed=2)
    controller, _, _ = make(tmp_path, database, store=database.open_search("b"), strategy=again)
    controller.run()
    assert again.ask(3) == strategy.ask(3)


@pytest.mark.parametrize(("before", "after"), [(27, 9), (9, 27)])
def test_other_lengths_of_a_schedule_answer_where_they_are_the_same_training(before, after, tmp_path):
    database = MemoryDatabase()
    options = {"recipe": CONSTANT, "stopper": Never(), "trials": 6}
    _, first, _ = searched(tmp_path, database, epochs=before, **options)
    found, second, workers = searched(tmp_path, database, "b", epochs=after, **options)
    if before > after:  # the first nine of 27 epochs
        assert workers.jobs == []
        assert [t.reused for t in second.trials()] == [f"a/{number}" for number in range(6)]
        assert all(t.extra[SCHEDULE] == 27 and t.state is State.COMPLETED for t in second.trials())
        assert all(t.weights == "" and t.epochs == t.epoch == 9 for t in second.trials())
        assert [t.curve for t in second.trials()] == [t.curve[:9] for t in first.trials()]
        assert found.tally.answered == 6 * 9
    else:  # no checkpoint of the longer schedule: a rule that never pauses has to begin anew
        assert len(workers.jobs) == 6
        _, third, _ = searched(
            tmp_path, database, "c", epochs=27, recipe=CONSTANT, trials=6, reuse="always", strategy=None
        )
        assert all(t.reused.startswith("b/") for t in third.trials())


def test_a_short_schedule_tells_the_rungs_of_a_longer_one(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database, epochs=9, recipe=CONSTANT, stopper=Never(), trials=9)
    _, second, workers = searched(tmp_path, database, "b", epochs=27, recipe=CONSTANT, trials=9)
    known = [t for t in second.trials() if t.state is State.STOPPED]
    assert all(t.reused and t.epoch == 9 and t.extra[SCHEDULE] == 9 for t in known)
    assert {job.until for job in workers.jobs} == {0}  # the rungs are known, what is promoted trains to its end
    assert known


def test_the_length_of_a_cosine_schedule_matters(tmp_path):
    database = MemoryDatabase()
    assert not Recipe().anytime
    assert not Recipe(schedule="constant", warmup=0.1).anytime
    assert CONSTANT.anytime
    searched(tmp_path, database, epochs=27, stopper=Never(), trials=6)
    _, second, _ = searched(tmp_path, database, "b", epochs=9, stopper=Never(), trials=6)
    assert [t.reused for t in second.trials()] == [""] * 6


def test_what_still_rests_elsewhere_is_known_and_continued_too(tmp_path):
    database, turns = MemoryDatabase(), iter(range(1000))
    controller, first, _ = make(tmp_path, database)
    controller._watch = lambda search: search.interrupt() if next(turns) == 14 else None
    assert controller.run().interrupted
    first.finish("interrupted")
    resting = {t.digest: t for t in first.trials() if t.state is State.PAUSED}
    assert resting
    _, second, _ = searched(tmp_path, database, "b", stopper=Never())
    check_curves(second)
    for trial in second.trials():
        if trial.digest in resting:
            source = resting[trial.digest]
            assert trial.extra[CONTINUED] == f"a/{source.number}"
            assert trial.extra[SPARED_EPOCHS] == source.epoch
    for path in tmp_path.glob("weights/b/*.checkpoint"):
        path.unlink()
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.checkpoint")} >= {
        t.weights for t in resting.values()
    }  # its own checkpoints are as they were


def test_a_search_that_goes_on_is_answered_by_what_others_have_finished_since(tmp_path):
    database, turns = MemoryDatabase(), iter(range(1000))
    controller, first, _ = make(tmp_path, database)
    controller._watch = lambda search: search.interrupt() if next(turns) == 14 else None
    controller.run()
    first.finish("interrupted")
    kept = {t.number: t.extra[CHECKPOINT] for t in first.trials() if not t.state.final and CHECKPOINT in t.extra}
    searched(tmp_path, database, "b", stopper=Never())
    controller, resumed, workers = make(tmp_path, database, store=database.open_search("a"))
    found = controller.run()
    check_curves(resumed)
    assert workers.jobs == []
    assert all(t.state.final for t in resumed.trials())
    on_their_way = [t for t in resumed.trials() if OWN in t.extra]
    assert on_their_way
    for trial in on_their_way:
        assert trial.reused.startswith("b/")
        assert trial.extra[OWN] == kept[trial.number] <= trial.seconds
        assert trial.state is State.COMPLETED
    assert found.tally.epochs == sum(t.epoch for t in resumed.trials() if not t.reused) + sum(
        t.extra[OWN] for t in on_their_way
    )
    assert {path.parent.name for path in tmp_path.rglob("*.checkpoint")} <= {"a", "b"}
    left = {t.extra[LEFT] for t in resumed.trials() if LEFT in t.extra}
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.glob("weights/a/*.checkpoint")} == left


def test_one_that_time_stopped_goes_on_in_a_search_with_more_time(tmp_path):
    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database, limits=Limits(trials=14, seconds=12.0))
    stopped = {t.digest: t for t in first.trials() if t.reason == TIME_UP and LEFT in t.extra}
    assert stopped
    _, second, workers = searched(tmp_path, database, "b", stopper=Never())
    spared = sum(t.extra.get(SPARED_EPOCHS, 0) for t in second.trials())
    assert spared >= sum(t.epoch for t in stopped.values())
    assert workers.busy == sum(t.epoch for t in second.trials() if not t.reused) - spared


def test_a_twin_that_was_interrupted_is_followed_and_then_continued(tmp_path):
    database, turns = MemoryDatabase(), iter(range(1000))
    controller, first, _ = make(tmp_path, database)
    controller._watch = lambda search: search.interrupt() if next(turns) == 15 else None
    controller.run()
    first.finish("interrupted")
    twin = History("a", first.steps(), {t.number: t for t in first.trials()})
    lines = []
    _, second, workers = searched(tmp_path, database, "b", twin=twin, warn=lines.append)
    check_curves(second)
    assert lines == []
    assert all(t.state.final for t in second.trials())
    spared = sum(t.extra.get(SPARED_EPOCHS, 0) for t in second.trials())
    assert spared
    assert workers.busy == sum(t.epoch for t in second.trials() if not t.reused) - spared


def test_inherited_trials_are_no_answer_and_candidates_that_inherit_take_no_half_curve(tmp_path):
    class Children(RandomSearch):
        def ask(self, count):
            return [replace(c, parents=(0,), origin=Origin.MUTATE) for c in super().ask(count)]

    database = MemoryDatabase()
    _, first, _ = searched(tmp_path, database)
    half = {t.digest for t in first.trials() if t.state is State.STOPPED}
    _, second, _ = searched(tmp_path, database, "b", strategy=Children(SPACE, seed=1), inherit="match")
    assert all(not t.reused and CONTINUED not in t.extra for t in second.trials() if t.digest in half)
    assert {t.reused for t in second.trials() if t.digest not in half} != {""}


def test_a_continued_trial_answers_and_leaves_a_checkpoint_like_any_other(tmp_path):
    database = MemoryDatabase()
    searched(tmp_path, database, trials=8)
    searched(tmp_path, database, "b", strategy=RandomSearch(SPACE, seed=2), trials=30)
    _, third, workers = searched(
        tmp_path, database, "c", stopper=Never(), strategy=RandomSearch(SPACE, seed=3), trials=36
    )
    check_curves(third)
    assert {t.state for t in third.trials()} == {State.COMPLETED}
    spared = sum(t.extra.get(SPARED_EPOCHS, 0) for t in third.trials())
    assert workers.busy == sum(t.epoch for t in third.trials() if not t.reused) - spared
    assert {t.extra[CONTINUED][0] for t in third.trials() if SPARED_EPOCHS in t.extra} == {"a", "b"}


def test_what_is_taken_over_on_the_way_is_on_record_before_its_own_checkpoint_goes(tmp_path):
    class Left(AllGoOn):
        """Stops them after the second rung, so that its checkpoint stays."""

        def judge(self, trial, peers):
            return Verdict.STOP if trial.epoch == 5 else Verdict.CONTINUE

    database, turns = MemoryDatabase(), iter(range(1000))
    controller, first, _ = make(tmp_path, database)
    controller._watch = lambda search: search.interrupt() if next(turns) == 14 else None
    controller.run()
    first.finish("interrupted")
    rested = {t.number: t for t in first.trials() if t.state is State.PAUSED}
    searched(tmp_path, database, "b", stopper=Left(epochs=EPOCHS))  # the same trainings, some further on
    further = {t.digest: t for t in database.open_search("b", lock=False).trials() if t.extra.get(LEFT)}
    assert any(further[t.digest].epoch > t.epoch for t in rested.values() if t.digest in further)

    taken = []

    def named(submit, store, controller):
        def checked(job):
            recorded = next(trial for trial in store.trials() if trial.number == job.number)
            trial = controller.running[job.number]
            assert (recorded.weights, recorded.epoch) == (trial.weights, trial.epoch)  # what it goes on from
            taken.append(trial.extra.get(KNOWN))
            submit(job)

        return checked

    for turn in range(60):  # killed at any turn, each trial has a curve, and a checkpoint that is there
        store = database.open_search("a")
        controller, resumed, workers = make(tmp_path, database, store=store, crash=turn % 9 + 1, slots=2)
        workers.submit = named(workers.submit, store, controller)
        try:
            controller.run()
            break
        except Crash:
            resumed.close()
        for trial in database.open_search("a", lock=False).trials():
            whole = curve_of(trial.candidate, EPOCHS)
            assert list(trial.curve) == whole[: trial.epoch]
            if trial.state is State.PAUSED:
                assert trial.epoch >= rested[trial.number].epoch if trial.number in rested else True
            if not trial.state.final and trial.weights:
                assert (tmp_path / trial.weights).is_file()
    check_curves(resumed)
    assert all(t.state.final for t in resumed.trials())
    assert 5 in taken


def seeded(job, event):
    """A curve that depends on the seed, as those of real trainings do."""
    if isinstance(event, Ended):
        return event
    metrics = {name: value + job.seed % 97 / 1e6 for name, value in event.report.metrics.items()}
    return replace(event, report=replace(event.report, metrics=metrics))


def test_what_the_strategy_was_told_of_a_trial_stays_true_whatever_other_seeds_gave(tmp_path):
    database, turns = MemoryDatabase(), iter(range(1000))
    strategy = Guided(SPACE, seed=1)
    controller, first, _ = make(tmp_path, database, strategy=strategy, change=seeded)
    controller._watch = lambda search: search.interrupt() if next(turns) == 14 else None
    controller.run()
    first.finish("interrupted")
    told = {t.number: t for t in first.trials() if t.state is State.PAUSED}
    begun = len(first.trials())
    searched(tmp_path, database, "b", stopper=Never(), seed=5, reuse="never", trials=36, change=seeded)
    lines = []
    controller, resumed, workers = make(
        tmp_path, database, store=database.open_search("a"), strategy=Guided(SPACE, seed=1), change=seeded,
        warn=lines.append, stopper=AllGoOn(epochs=EPOCHS),
    )  # fmt: skip
    controller.run()
    assert lines == []
    for trial in resumed.trials():
        if trial.number in told:
            before = told[trial.number]
            assert (trial.seed, trial.reused) == (before.seed, "")
            assert trial.reports[: before.epoch] == before.reports
        elif trial.number >= begun:
            assert trial.reused.startswith("b/")  # what nobody was told of is answered
    assert any(job.number in told for job in workers.jobs)


def test_one_on_its_way_to_its_end_takes_over_what_came_further_and_its_own_checkpoint_goes_after_that(tmp_path):
    class Stops(AllGoOn):
        def judge(self, trial, peers):
            return Verdict.STOP if trial.epoch == 5 else Verdict.CONTINUE

    database, turns = MemoryDatabase(), iter(range(1000))
    controller, first, _ = make(tmp_path, database)
    controller._watch = lambda search: search.interrupt() if next(turns) == 14 else None
    controller.run()
    first.finish("interrupted")
    searched(tmp_path, database, "b", stopper=Stops(epochs=EPOCHS))
    controller, store, _ = make(tmp_path, database, store=database.open_search("a"))
    controller._take_up()
    mine = next(iter(controller._ledger.resting.values()))
    taken = controller._reuse.begin(controller._ledger.wake(mine.number, **{FINISHING: 1}))
    assert (taken.state, taken.epoch, taken.extra[KNOWN], taken.extra[CHECKPOINT]) == (State.RUNNING, 5, 5, 3)
    assert taken.weights.startswith("weights/b/")
    assert taken.extra[SPARED_EPOCHS] == 3 - mine.epoch
    assert store.trials()[mine.number] == taken
    assert (tmp_path / mine.weights).is_file()
    controller._commit()
    assert database.open_search("a", lock=False).trials()[mine.number] == taken
    assert not (tmp_path / mine.weights).is_file()
