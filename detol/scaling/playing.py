"""Playing the rest of a search to its end by simple rules, to see when the last trial would end.

A state is when each worker is free, in ascending order; a trial is its seconds at each width.
"""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

Times = tuple[float, ...]
"""Seconds of a trial at each of the widths that are looked at, the first of them 1."""

APART, TOGETHER, SHARED, EVEN = "apart", "together", "shared", "even"
SLACK = (1.0, 1.25)
"""Times the even end of the search that a trial may take under ``EVEN``."""


def played(
    ready: Sequence[float], rest: Sequence[Times], widths: Sequence[int], free: int, *, whole: bool
) -> dict[str, float]:
    """Return when the search ends by each rule.

    Args:
        ready: seconds until each worker is free, ascending, the trial at hand included.
        rest: the trials after it, in their order.
        widths: of the times.
        free: workers that the trial at hand leaves.
        whole: whether trials run to their end, so that it is known what there is to do; ``EVEN`` needs that.
    """
    return {
        APART: apart(ready, rest),
        TOGETHER: ready[-1] + math.fsum(times[-1] for times in rest),
        SHARED: shared(ready, rest, widths, free),
        EVEN: min(even(ready, rest, widths, slack) for slack in SLACK) if whole else math.inf,
    }


def apart(ready: Sequence[float], rest: Sequence[Times]) -> float:
    """Each trial on the worker that is free first."""
    heap, last = list(ready), ready[-1]
    heapq.heapify(heap)
    for times in rest:
        end = heap[0] + times[0]
        heapq.heapreplace(heap, end)
        last = max(last, end)
    return last


def shared(ready: Sequence[float], rest: Sequence[Times], widths: Sequence[int], free: int) -> float:
    """All at once beside the trial at hand, on equal shares of what it leaves; infinite for more trials than that."""
    if not rest or len(rest) > free:
        return math.inf
    place = bisect_right(widths, free // len(rest)) - 1
    share = widths[place]
    ends = [ready[share * (number + 1) - 1] + times[place] for number, times in enumerate(rest)]
    return max(*ends, ready[-1])


def even(ready: Sequence[float], rest: Sequence[Times], widths: Sequence[int], slack: float) -> float:
    """Each trial at the least width with which it alone would not outlast the even end of all work.

    These are the canonical widths of Turek, Wolf and Yu 1992. A trial starts when so many workers are free.
    """
    bound = slack * (math.fsum(ready) + math.fsum(times[0] for times in rest)) / len(ready)
    workers = list(ready)
    last = workers[-1]
    for times in rest:
        if times[0] <= bound:
            place = 0
        else:  # times fall with the width, or the widest is as good as any
            place = min(bisect_left(times, -bound, key=lambda seconds: -seconds), len(times) - 1)
        width = widths[place]
        end = workers[width - 1] + times[place]
        del workers[:width]
        for _ in range(width):
            insort(workers, end)
        last = max(last, end)
    return last
