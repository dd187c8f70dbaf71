"""How work on a device is recorded once and done again many times."""

from collections.abc import Callable
from typing import Any, Protocol

import torch

Work = Callable[[], None]
WARMING = 2
"""Runs before a recording: libraries choose their kernels and take their workspace in them."""


class Recorder(Protocol):
    """Records work that always uses the same memory."""

    def warm(self, work: Work) -> None:
        """Do the work as often as a recording needs it to have been done before."""

    def wait(self) -> None:
        """Wait until all work that was begun is done."""

    def record(self, work: Work) -> Work:
        """Record the work without doing it; return what does it again.

        Raises:
            RuntimeError: work that cannot be recorded, since it waits for the device.
        """

    def let_go(self) -> None:
        """Destroy what was recorded, whoever still holds it: it is not done again."""


class CudaRecorder:
    """Records CUDA graphs; those of one recorder share their memory, so only one of them may run at a time.

    Args:
        device: a CUDA device.
        trying: whether cuDNN tries its kernels for each new shape instead of taking the one that it expects to be best.
            On an H200 steps are 0 to 3 % quicker by it, and each network with new shapes takes 1 to 12 s longer to set
            up: more than a whole training of small data takes.
    """

    def __init__(self, device: torch.device, *, trying: bool = False) -> None:
        torch.backends.cudnn.benchmark = trying
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool: Any = None
        self._graphs: list[torch.cuda.CUDAGraph] = []

    def warm(self, work: Work) -> None:
        """Do the work on the stream that is recorded."""
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for _ in range(WARMING):
                work()
        current.wait_stream(self._stream)

    def wait(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self._stream.device)

    def record(self, work: Work) -> Work:
        """Record a graph."""
        graph = torch.cuda.CUDAGraph()
        self._graphs.append(graph)  # before it is one: of a recording that fails, the error may hold it
        # Other threads of the worker may use the device meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            work()
        self._pool = self._pool or graph.pool()
        replay: Work = graph.replay
        return replay

    def let_go(self) -> None:
        """Destroy the graphs; waits for one that runs."""
        for graph in self._graphs:
            graph.reset()
        self._graphs.clear()
        self._pool = None


class Rerun:
    """Records nothing: does the work anew. For devices without graphs, and for tests."""

    def warm(self, work: Work) -> None:
        """Do the work once."""
        work()

    def wait(self) -> None:
        """Do nothing: work is done when it returns."""

    def record(self, work: Work) -> Work:
        """Return the work."""
        return work

    def let_go(self) -> None:
        """Do nothing: nothing is recorded."""
