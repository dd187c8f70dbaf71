"""Real processes over gloo, killed and stopped: the survivors meet again."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from detol.workers.elastic.local import LocalRanks
from detol.workers.elastic.plan import Plan

ENTRIES = Path(__file__).with_name("entries.py")


def run(width, name, *arguments, **settings):
    """Run ranks to their end; return them and what each said."""
    ranks = LocalRanks(width, f"{ENTRIES}:{name}", *arguments, **settings)
    said = {rank: [] for rank in range(width)}
    try:
        for word in ranks:
            said[word.rank].append(word.failure if word.done else word.item)
    finally:
        ranks.close()
    return ranks, said


@pytest.mark.parametrize("victim", [0, 2])
def test_survivors_of_a_killed_rank_go_on(victim):
    ranks, said = run(3, "sums", victim, signal.SIGKILL)
    left = [rank for rank in range(3) if rank != victim]
    assert said[victim][0] == "up"
    assert len(said[victim]) == 4
    for place, rank in enumerate(left):
        assert said[rank][1:4] == [(number, rank, 3, [3.0, 3.0]) for number in range(3)]
        assert said[rank][4:7] == [(number, place, 2, [float(sum(left)), 2.0]) for number in (3, 4, 5)]
        assert said[rank][7:] == [(f"{victim} at step 3",), ""]
    assert ranks.plans == [Plan(1, tuple(left))]
    assert ranks.kills == []


def test_a_stopped_rank_is_killed_and_the_survivors_go_on():
    ranks, said = run(3, "sums", 1, signal.SIGSTOP, stall=2.0)
    assert said[0][-3:] == [(5, 0, 2, [2.0, 2.0]), ("1 at step 3",), ""]
    assert said[2][-3:] == [(5, 1, 2, [2.0, 2.0]), ("1 at step 3",), ""]
    assert [kill.ranks for kill in ranks.kills] == [(1,)]


def test_of_two_ranks_one_goes_on_alone():
    _, said = run(2, "sums", 0, signal.SIGKILL)
    assert said[1][-2:] == [("0 at step 3",), ""]
    assert said[1][-3] == (5, 0, 1, [1.0, 1.0])


def test_a_rank_that_never_returns_is_killed_and_the_others_go_on():
    ranks, said = run(3, "hangs", 2, limit=2.0)
    assert said == {0: ["up", (0, 2), ""], 1: ["up", (1, 2), ""], 2: ["up"]}
    assert [(kill.ranks, kill.reason) for kill in ranks.kills] == [((2,), "its step did not return within 2 s")]


def test_whoever_waits_in_a_group_that_is_broken_off_meets_the_others_again(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ranks, said = run(2, "breaks_off", str(tmp_path / "pipe"), limit=10.0)
    assert said == {0: ["up", (0, 2), ""], 1: ["up", (1, 2), ""]}
    assert ranks.kills == []


def test_a_rank_that_fails_ends_all():
    _, said = run(3, "fails", 1)
    assert said[1] == ["up", "MemoryError: full"]
    assert said[0] == said[2] == ["up", "WorkerLost: rank 1: MemoryError: full"]


def test_shared_bytes_flags_and_sums():
    _, said = run(2, "shares")
    assert said[0] == said[1] == [b"\x01\x01\x01", b"", ((True, False), (3.0, 1.0)), ""]


def test_survivors_take_the_state_of_the_one_that_is_furthest():
    _, said = run(2, "levels")
    behind, ahead = said[0][0], said[1][0]
    assert behind["place"] == ahead["place"] == (2, 4)
    np.testing.assert_array_equal(behind["state"], ahead["state"])
    # Three steps of both ranks, losses 1 and 2 of five samples each, are known to all; of the fourth rank 1's part.
    assert (behind["loss"], behind["samples"]) == (3 * (1 + 2) + 2, 35)
    assert (ahead["loss"], ahead["samples"]) == (0, 0)
    assert behind["mean"] == ahead["mean"] == pytest.approx(11 / 35)
    assert behind["epochs"] == ahead["epochs"] == [1]
