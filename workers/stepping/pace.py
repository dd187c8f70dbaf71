"""How far the host may run ahead of the device."""

from collections import deque

import torch

AHEAD = 16
"""Steps that may wait on the device: enough to keep it busy, few enough that a stop takes effect soon."""


class Pace:
    """Waits before a step until the device is at most some steps behind; on a CPU there is nothing to wait for.

    Args:
        device: of training.
        ahead: steps, >= 1.
    """

    def __init__(self, device: torch.device, ahead: int = AHEAD) -> None:
        self._real, self._ahead = device.type == "cuda", ahead
        self._marks: deque[torch.cuda.Event] = deque()

    def step(self) -> None:
        """Note that a step was handed to the device, and wait for the one so many before it."""
        if not self._real:
            return
        mark = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        mark.record()
        self._marks.append(mark)
        if len(self._marks) > self._ahead:
            self._marks.popleft().synchronize()
