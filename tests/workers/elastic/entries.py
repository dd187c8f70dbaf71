"""What the ranks in these tests run; loaded by their processes from this file."""

import os
import signal

import torch

from detol.errors import WorkerLost


def end(group, signal_number=signal.SIGKILL):
    os.kill(os.getpid(), signal_number)


def sums(group, victim, how, times=6):
    """Sum over the ranks again and again; the victim ends in the middle. Survivors say what they see."""
    yield "up"
    for number in range(times):
        try:
            with group.guarded():
                if group.member == victim and number == times // 2:
                    end(group, how)
                found = group.total(torch.tensor([float(group.member), 1.0])).tolist()
        except WorkerLost as error:
            group.reform(error, number)
            with group.guarded():
                found = group.total(torch.tensor([float(group.member), 1.0])).tolist()
        yield (number, group.rank, group.width, found)
    yield group.lost


def hangs(group, victim):
    """One rank never comes back from its step, though it is alive."""
    import threading

    yield "up"
    group.agree([False])
    try:
        with group.guarded():
            if group.member == victim:
                threading.Event().wait()
            group.agree([False])
    except WorkerLost as error:
        group.reform(error, 1)
    yield (group.rank, group.width)


def fails(group, victim):
    """One rank fails by itself: the others give up too."""
    yield "up"
    if group.member == victim:
        raise MemoryError("full")
    try:
        with group.guarded():
            group.agree([False])
    except WorkerLost as error:
        group.reform(error, 0)
    yield "went on"


def shares(group):
    """What collective calls give."""
    yield group.share(bytes([group.rank]) * 3, 1)
    yield group.share(b"", 0)
    yield group.meet([group.rank == 1, False], [1.5, float(group.rank)])
