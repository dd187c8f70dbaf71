"""The Ray pool's own promises: gangs, faults, shared data. Its contract is in tests/contracts."""

import os
import re
import signal
import time

import pytest
import torch

from detol.errors import UsageError, WorkerLost
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, Reported, State
from detol.spaces.decisions import Decisions
from detol.workers.checkpoint import unpack
from detol.workers.data import read
from detol.workers.evaluate import evaluate
from detol.workers.pool import RayExecutor, patience
from detol.workers.train import train

PATIENCE = 120.0
PLAIN = chain(op("conv", channels=8, norm=False), op("conv", channels=8, stride=2, norm=False))
NORMED = chain(op("conv", channels=8), op("conv", channels=8, stride=2))
ENDLESS = 10**6


def make_entry():
    """Nested, so that it travels to workers by value: this file is no module that they could import."""
    import time

    from detol.errors import WorkerLost
    from detol.search.records import Report
    from detol.workers.training_job import run

    def entry(job, data, *, group, stop):
        note = job.candidate.note
        if note == "hang":
            while True:
                time.sleep(0.05)
        if note in ("stuck", "rank 1 is stuck"):
            group.agree([False])
            try:
                with group.guarded():
                    while note == "stuck" or group.rank == 1:
                        time.sleep(0.05)
                    group.agree([False])
            except WorkerLost as error:
                group.reform(error, 1)
            yield Report(1, {"width": group.width})
            return
        if note == "facts":
            flags = group.agree([group.rank == 1, False])
            ranks = group.gather(__import__("torch").full((group.rank + 2,), float(group.rank))).tolist()
            yield Report(1, {"flag": flags[0], "other": flags[1], "sum": sum(ranks), "rows": len(ranks)})
            yield Report(2, {"test": data.test is not None, "rows": len(data.train)})
            return
        if note == "rank 1 fails" and group.rank == 1:
            raise MemoryError("rank 1 is full")
        for item in run(job, data, group=group, stop=stop):
            yield item
            while note == "hang after an epoch":
                time.sleep(0.05)

    return entry


@pytest.fixture(scope="module")
def digits():
    return read("digits")


@pytest.fixture(scope="module")
def pool(local_ray, digits):
    executor = RayExecutor(digits, workers=2, ranks=2, entry=make_entry())
    yield executor
    executor.close()


@pytest.fixture(autouse=True)
def _whole(request):
    """The pool is whole before each test."""
    if "pool" in request.fixturenames:
        wait_for(request.getfixturevalue("pool"), 2)


def wait_for(executor, free):
    deadline = time.monotonic() + PATIENCE
    while executor.free() < free:
        assert time.monotonic() < deadline
        assert not executor.poll(0.05)


def job(number, topology=PLAIN, note="", epochs=2, recipe=Recipe(), **settings):  # noqa: B008  frozen
    return Job(number, Candidate(Decisions(), topology, Origin.SAMPLE, (), note), recipe, epochs, seed=3, **settings)


def ended(executor):
    events, deadline = [], time.monotonic() + PATIENCE
    while not events or not isinstance(events[-1], Ended):
        assert time.monotonic() < deadline
        events += executor.poll(0.5)
    return events


def curve(events):
    return [event.report.metrics for event in events if isinstance(event, Reported)]


def first_report(executor):
    events, deadline = [], time.monotonic() + PATIENCE
    while not events:
        assert time.monotonic() < deadline
        events += executor.poll(0.5)
    assert isinstance(events[0], Reported)
    return events[0]


def pids(executor):
    return [seat.about.pid for seat in executor._seats]


def test_a_worker_trains_as_this_process_would_to_the_bit(pool, digits):
    pool.submit(job(0, NORMED))
    events = ended(pool)
    assert curve(events) == [dict(r.metrics) for r in train(NORMED, digits, Recipe(), epochs=2, seed=3)]
    found = evaluate(NORMED, events[-1].weights, digits, "validation")
    assert found["val_accuracy"] == curve(events)[-1]["val_accuracy"]


UNEVEN = Recipe(batch_size=99, augment="crop", optimiser="adamw", learning_rate=1e-3)


@pytest.mark.parametrize("recipe", [Recipe(), UNEVEN])
def test_widths_1_and_2_have_the_same_curve(pool, recipe):
    pool.submit(job(0, recipe=recipe))
    alone = curve(ended(pool))
    wait_for(pool, 2)
    pool.submit(job(1, recipe=recipe, width=2))
    events = ended(pool)
    assert events[-1].state is State.COMPLETED, events[-1].reason
    assert events[-1].weights
    for one, two in zip(alone, curve(events), strict=True):
        assert two == pytest.approx(one, abs=1e-3)


def test_synchronised_batch_norm_makes_widths_agree(pool):
    recipe = Recipe(sync_norm=True, learning_rate=0.02)
    pool.submit(job(0, NORMED, recipe=recipe))
    alone = curve(ended(pool))
    wait_for(pool, 2)
    pool.submit(job(1, NORMED, recipe=recipe, width=2))
    together = curve(ended(pool))
    for one, two in zip(alone, together, strict=True):
        assert two["train_loss"] == pytest.approx(one["train_loss"], abs=1e-3)
        assert two["val_loss"] == pytest.approx(one["val_loss"], abs=1e-2)
    wait_for(pool, 2)
    pool.submit(job(2, NORMED, recipe=Recipe(learning_rate=0.02), width=2))
    apart = curve(ended(pool))
    assert abs(apart[0]["train_loss"] - alone[0]["train_loss"]) > 1e-3


@pytest.mark.parametrize("sync_norm", [False, True])
def test_two_ranks_pause_and_go_on_to_the_bit(pool, sync_norm):
    topology = chain(op("conv", channels=8), op("dropout", rate=0.2), op("conv", channels=8, stride=2))
    recipe = Recipe(batch_size=200, augment="crop", sync_norm=sync_norm)
    pool.submit(job(0, topology, recipe=recipe, width=2, epochs=4))
    whole, weights = ended(pool), None
    assert whole[-1].state is State.COMPLETED, whole[-1].reason
    found = []
    for until in (1, 3, 0):
        wait_for(pool, 2)
        pool.submit(job(1, topology, recipe=recipe, width=2, epochs=4, until=until, checkpoint=weights))
        events = ended(pool)
        assert events[-1].state is (State.PAUSED if until else State.COMPLETED), events[-1].reason
        found, weights = found + curve(events), events[-1].weights
    assert found == curve(whole)
    one, two = unpack(weights, topology), unpack(whole[-1].weights, topology)
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_a_worker_killed_on_its_way_from_a_checkpoint_is_tried_again_from_there_to_the_bit(pool):
    topology = chain(op("conv", channels=8), op("dropout", rate=0.2), op("conv", channels=8, stride=2))
    recipe = Recipe(augment="crop")
    pool.submit(job(0, topology, recipe=recipe, epochs=4))
    whole = ended(pool)
    wait_for(pool, 2)
    pool.submit(job(1, topology, recipe=recipe, epochs=4, until=2))
    paused = ended(pool)
    assert paused[-1].state is State.PAUSED
    checkpoint = paused[-1].weights
    wait_for(pool, 2)
    pool.submit(job(1, topology, "hang after an epoch", recipe=recipe, epochs=4, checkpoint=checkpoint))
    first_report(pool)
    victim = next(seat.about.pid for seat in pool._seats if seat.state == "busy")
    os.kill(victim, signal.SIGKILL)
    lost = ended(pool)
    assert (lost[-1].state, curve(lost)) == (State.LOST, [])
    wait_for(pool, 2)
    assert victim not in pids(pool)
    pool.submit(job(1, topology, recipe=recipe, epochs=4, attempt=2, checkpoint=checkpoint))
    again = ended(pool)
    assert again[-1].state is State.COMPLETED, again[-1].reason
    assert curve(paused) + curve(again) == curve(whole)
    one, two = unpack(again[-1].weights, topology), unpack(whole[-1].weights, topology)
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_ranks_agree_and_gather_and_never_see_the_test_split(pool, digits):
    pool.submit(job(0, note="facts", width=2))
    first, second = curve(ended(pool))
    assert first == {"flag": True, "other": False, "sum": 3.0, "rows": 5}  # 2 zeros of rank 0, 3 ones of rank 1
    assert second == {"test": False, "rows": len(digits.train)}


def test_a_stop_reaches_both_ranks(pool):
    before = pids(pool)
    pool.submit(job(0, width=2, epochs=ENDLESS))
    first_report(pool)
    pool.cancel(0)
    end = ended(pool)[-1]
    assert (end.state, end.reason) == (State.STOPPED, "stopped at a step boundary")
    wait_for(pool, 2)
    assert pids(pool) == before  # nobody had to be killed
    pool.submit(job(1, width=2))
    assert ended(pool)[-1].state is State.COMPLETED


def test_a_killed_worker_is_lost_and_replaced(pool):
    pool.submit(job(0, epochs=ENDLESS))
    first_report(pool)
    victim = next(seat.about.pid for seat in pool._seats if seat.state == "busy")
    os.kill(victim, signal.SIGKILL)
    end = ended(pool)[-1]
    assert end.state is State.LOST
    assert str(victim) in end.reason
    wait_for(pool, 2)
    assert victim not in pids(pool)
    pool.submit(job(0, attempt=2))
    assert ended(pool)[-1].state is State.COMPLETED


def survives(pool, rank, how):
    """Let a rank of a running trial of two die, and return its events to the end, stopped after some more epochs."""
    pool.submit(job(0, width=2, epochs=ENDLESS))
    events = [first_report(pool)]
    victim = pids(pool)[rank]
    os.kill(victim, how)
    wait_for_worker(pool, 1, events)  # a new process, for another trial
    assert victim not in pids(pool)
    more = len(events) + 2
    deadline = time.monotonic() + PATIENCE
    while len(events) < more:
        assert time.monotonic() < deadline
        events += pool.poll(0.5)
    pool.cancel(0)
    return events + ended(pool)


def wait_for_worker(executor, free, events):
    deadline = time.monotonic() + PATIENCE
    while executor.free() < free:
        assert time.monotonic() < deadline
        events += executor.poll(0.05)


@pytest.mark.parametrize(("rank", "how"), [(0, signal.SIGKILL), (1, signal.SIGSTOP)])
def test_a_trial_goes_on_without_a_rank_that_dies_or_stalls(pool, monkeypatch, rank, how):
    monkeypatch.setattr(pool, "_stall", 4.0)
    events = survives(pool, rank, how)
    assert all(isinstance(event, Reported) for event in events[:-1])
    assert [event.report.epoch for event in events[:-1]] == list(range(1, len(events)))
    end = events[-1]
    assert (end.state, end.reason) == (State.STOPPED, "stopped at a step boundary")
    assert end.weights
    assert re.fullmatch(rf"{rank} at step \d+", end.extra["ranks_lost"])
    assert end.extra["width_now"] == 1
    wait_for(pool, 2)
    pool.submit(job(1, width=2))
    end = ended(pool)[-1]
    assert end.state is State.COMPLETED
    assert "ranks_lost" not in end.extra


def test_the_next_trial_of_the_same_ranks_finds_their_group_open_and_learns_the_same(pool):
    pool.submit(job(0, NORMED, width=2))
    first = curve(ended(pool))
    wait_for(pool, 2)
    name = pool._gangs.name([0, 1])
    assert name is not None
    pool.submit(job(1, width=1))
    assert ended(pool)[-1].state is State.COMPLETED
    wait_for(pool, 2)
    pool.submit(job(2, NORMED, width=2))
    assert curve(ended(pool)) == first
    wait_for(pool, 2)
    assert pool._gangs.name([0, 1]) == name


def test_a_step_that_never_returns_ends_a_trial(pool, monkeypatch):
    monkeypatch.setattr(pool, "_step_limit", 3.0)
    monkeypatch.setattr("detol.workers.pool.LONE_PULSE", 0.5)
    pool.submit(job(0, note="stuck"))
    end = ended(pool)[-1]
    assert (end.state, end.reason) == (State.TIMED_OUT, "no step ended within 3 s: it was killed")
    wait_for(pool, 2)


def test_a_step_that_never_returns_on_one_rank_costs_that_rank_alone(pool, monkeypatch):
    monkeypatch.setattr(pool, "_step_limit", 2.5)
    pool.submit(job(0, width=2, note="rank 1 is stuck"))
    *reports, end = ended(pool)
    assert (end.state, end.extra["ranks_lost"], curve(reports)) == (State.COMPLETED, "1 at step 1", [{"width": 1}])
    wait_for(pool, 2)


@pytest.mark.parametrize("limit", [0.5, 5.5, 900.0])
def test_ranks_wait_longer_for_each_other_than_until_one_is_given_up_and_looked_for_again(limit):
    assert 2 * limit < patience(limit) < 86400


def test_a_rank_that_runs_out_of_memory_decides_the_state(pool):
    before = pids(pool)
    pool.submit(job(0, width=2, note="rank 1 fails"))
    end = ended(pool)[-1]
    assert (end.state, end.reason) == (State.OUT_OF_MEMORY, "rank 1: MemoryError: rank 1 is full")
    wait_for(pool, 2)
    assert pids(pool)[1] != before[1]  # memory may be in pieces: a new process
    pool.submit(job(1, width=2))
    assert ended(pool)[-1].state is State.COMPLETED


def test_a_job_that_hangs_past_its_limit_is_killed(pool, monkeypatch):
    monkeypatch.setattr(pool, "_grace", 0.5)
    pool.submit(job(0, note="hang", limit=0.5))
    end = ended(pool)[-1]
    assert end.state is State.TIMED_OUT
    assert "limit of 0.5 s" in end.reason
    wait_for(pool, 2)


def test_a_job_that_hangs_and_is_stopped_is_killed(pool, monkeypatch):
    monkeypatch.setattr(pool, "_grace", 0.5)
    pool.submit(job(0, note="hang"))
    pool.cancel(0)
    assert ended(pool)[-1].state is State.STOPPED
    wait_for(pool, 2)


def test_the_limit_is_kept_at_a_step_boundary(pool):
    before = pids(pool)
    pool.submit(job(0, epochs=ENDLESS, width=2, limit=1.0))
    end = ended(pool)[-1]
    assert end.state is State.TIMED_OUT
    assert end.reason.startswith("the limit of 1 s passed in epoch")
    wait_for(pool, 2)
    assert pids(pool) == before


def test_workers_that_cannot_start_are_said_so(local_ray):
    executor = RayExecutor(None, workers=1, entry="detol.workers.train:nothing")
    with pytest.raises(WorkerLost, match="cannot start workers"):
        wait_for(executor, 1)
    executor.close()


@pytest.mark.parametrize(("workers", "ranks"), [(0, 1), (1, 2), (2, 0)])
def test_more_ranks_than_workers_are_refused(workers, ranks):
    with pytest.raises(UsageError, match="workers >= ranks >= 1"):
        RayExecutor(None, workers=workers, ranks=ranks)
