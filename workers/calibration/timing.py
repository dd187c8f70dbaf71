"""Timing short work on a machine that others may use as well."""

import time
from collections.abc import Callable

import torch

BUNCH = 8
"""Calls that are timed together on a GPU."""


def least(work: Callable[[], object], device: torch.device, *, budget: float = 0.05, most: int = 200) -> float:
    """Return the least seconds of one call, of as many as fit into a budget of seconds (at least 3).

    The least, since whatever else runs on the machine can only make a call longer; on a CPU it is the time of this
    process that counts. On a GPU calls are timed in bunches, recorded as one graph: the time is the device's own, not
    that of the host, which takes longer to launch a small layer than the device to compute it. Work that cannot be
    recorded is timed launch by launch.
    """
    clock = clock_of(device)
    for _ in range(2):
        work()
    wait(device)
    bunch = 1
    if device.type == "cuda":
        bunch, work = BUNCH, _recorded(work, device)
    best, began, count = float("inf"), time.perf_counter(), 0
    while count < 3 or (count < most and time.perf_counter() - began < budget):
        started = clock()
        work()
        wait(device)
        best = min(best, (clock() - started) / bunch)
        count += 1
    return best


def _recorded(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Return a bunch of calls as one recorded graph; call by call where they cannot be recorded."""

    def called() -> None:
        for _ in range(BUNCH):
            work()

    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        called()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            called()
    except RuntimeError:
        wait(device)
        return called
    replay: Callable[[], object] = graph.replay
    return replay


def clock_of(device: torch.device) -> Callable[[], float]:
    """Return the clock of what computes: of this process alone on a CPU, which others may use as well."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def wait(device: torch.device) -> None:
    """Wait until a device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
