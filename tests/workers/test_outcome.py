import pytest
import torch

from detol.errors import Diverged, OutOfMemory, TimedOut, WorkerLost
from detol.search.records import State
from detol.workers.outcome import LONGEST_REASON, cause, decisive, outcome
from detol.workers.step import memory_faults


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Diverged("the loss is nan"), State.DIVERGED, "the loss is nan"),
        (OutOfMemory("device full"), State.OUT_OF_MEMORY, "device full"),
        (TimedOut("late"), State.TIMED_OUT, "late"),
        (WorkerLost("gone"), State.LOST, "gone"),
        (MemoryError(), State.OUT_OF_MEMORY, "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory"), State.OUT_OF_MEMORY, "OutOfMemoryError: CUDA out of memory"),
        (RuntimeError("std::bad_alloc"), State.OUT_OF_MEMORY, "RuntimeError: std::bad_alloc"),
        (ValueError("two\nlines"), State.FAILED, "ValueError: two lines"),
        (KeyError("out of memory"), State.FAILED, "KeyError: 'out of memory'"),
    ],
)
def test_each_exception_has_its_state_and_one_line(error, state, reason):
    assert outcome(error) == (state, reason)


def test_what_torch_raises_when_the_host_is_full_is_out_of_memory():
    with pytest.raises(OutOfMemory, match="allocate"), memory_faults():
        torch.empty(2**55, dtype=torch.uint8)


def test_other_errors_pass_the_memory_guard():
    with pytest.raises(ValueError, match="other"), memory_faults():
        raise ValueError("other")


def test_long_reasons_are_cut():
    assert len(outcome(ValueError("x" * 10_000))[1]) == LONGEST_REASON


def test_the_cause_wins_over_its_effect():
    assert decisive([State.LOST, State.OUT_OF_MEMORY]) is State.OUT_OF_MEMORY
    assert decisive([State.FAILED, State.LOST, State.COMPLETED]) is State.FAILED
    assert decisive([State.COMPLETED, State.STOPPED]) is State.STOPPED
    assert decisive([State.COMPLETED, State.COMPLETED]) is State.COMPLETED


def test_why_a_worker_could_not_be_made_is_the_last_line_of_its_traceback():
    told = RuntimeError("The actor died, \x1b[36mray::Worker\x1b[39m\nTraceback ...\nDataError: a.pack is cut off\n")
    assert cause(told).startswith("The actor died, ray::Worker\n")
    told.actor_init_failed = True  # as Ray's ActorDiedError has it
    assert cause(told) == "DataError: a.pack is cut off"
