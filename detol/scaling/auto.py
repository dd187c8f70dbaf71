"""``--ranks auto``: each trial gets the width, at each leg, that lets the search end soonest.

Trials side by side lose nothing to communication or thin products, so that is what they do while there are enough of
them. A trial gets more workers when some would idle, or when it alone would hold up the end. Where it starts when only
a few workers are free, it may wait for more of them: their idle time counts.

For each width the end of the search is estimated from below, as in the list schedules of malleable tasks (Turek, Wolf
and Yu 1992; Mounie, Rapine and Trystram 1999): no earlier than this trial ends, no earlier than all work is done when
shared evenly, no earlier than any other trial that is known. The width with the earliest end is taken, of about equal
ones the smallest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from detol.scaling.forecast import Forecast
from detol.search.widths import Leg, Situation, Width

GAIN = 0.1
"""Share of what is left of the search that a wider trial must save: below it, one rank, whose curve repeats exactly."""

LEAST = 5.0
"""Seconds that it must save."""

EQUAL = 0.02
"""Ends that differ by less than this share are equal."""

ALL = 16
"""Workers up to which every width is looked at; beyond it powers of two, and all of them."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A width: when its workers are free, when the trial ends, the search's end at the earliest (seconds from now)."""

    ranks: int
    start: float
    end: float
    over: float


class Auto:
    """Chooses widths by a forecast; implements :class:`detol.search.protocols.Widths`.

    Args:
        forecast: how long trials take at each width.
        gain: share of what is left that a wider trial must save, in [0, 1).
        least: seconds that it must save, >= 0.
    """

    def __init__(self, forecast: Forecast, *, gain: float = GAIN, least: float = LEAST) -> None:
        self._forecast, self._gain, self._least = forecast, gain, least

    def choose(self, leg: Leg, situation: Situation) -> Width:
        """Return the width, and why."""
        workers, forecast = situation.workers, self._forecast
        foretold = forecast.epoch_seconds(leg.trial, 1)
        if workers <= 1 or foretold <= 0:
            why = "one worker" if workers <= 1 else "the model cannot count this network"
            return Width(1, why, foretold)
        if not forecast.measured(situation.ended):
            return Width(1, "side by side: this machine is not calibrated and no trial has ended yet", foretold)
        correction = forecast.correction(situation.ended)
        alone = forecast.seconds(leg, 1, correction)
        left = situation.left * self._usual(leg, situation, correction)
        if alone <= left / workers:  # whoever comes next keeps everybody busy for longer than this trial takes
            return Width(1, self._busy(situation), foretold)
        choices = self._choices(leg, situation, correction, left)
        one = choices[0]
        soonest = min(choice.over for choice in choices)
        if soonest > min((1 - self._gain) * one.over, one.over - self._least):
            return Width(1, self._busy(situation), foretold)
        best = next(choice for choice in choices if choice.over <= (1 + EQUAL) * soonest)
        return Width(
            best.ranks,
            self._why(best, one, alone, situation),
            forecast.epoch_seconds(leg.trial, best.ranks),
        )

    def _choices(self, leg: Leg, situation: Situation, correction: float, left: float) -> list[_Choice]:
        forecast, workers = self._forecast, situation.workers
        running = sorted((self._remaining(other, correction), other.trial.width) for other in situation.running)
        waiting = [[forecast.seconds(other, width, correction) for width in self._widths(workers)]
                   for other in situation.waiting]  # fmt: skip
        area = left + sum(seconds * width for seconds, width in running) + sum(times[0] for times in waiting)
        longest = max(running, default=(0.0, 0))[0]
        found = []
        for width in self._widths(min(workers, max(1, forecast.most))):
            start, idle = _start(width, situation.free, running)
            seconds = forecast.seconds(leg, width, correction)
            end = start + seconds
            over = max(end, longest, (area + idle + width * seconds) / workers)
            for times in waiting:
                beside = times[: sum(w <= workers - width for w in self._widths(workers))]
                over = max(over, min([*(start + t for t in beside), end + min(times)]))
            found.append(_Choice(width, start, end, over))
        return found

    def _remaining(self, other: Leg, correction: float) -> float:
        return max(0.0, self._forecast.seconds(other, other.trial.width, correction) - other.seconds)

    def _usual(self, leg: Leg, situation: Situation, correction: float) -> float:
        """Return the worker-seconds of a trial to come: the mean of those that were trained, or as this one."""
        if situation.left <= 0:
            return 0.0
        spent = [trial.seconds * trial.width for trial in situation.ended if trial.seconds > 0]
        if spent:
            return math.fsum(spent) / len(situation.ended)
        return self._forecast.seconds(leg, 1, correction)

    def _widths(self, most: int) -> Sequence[int]:
        if most <= ALL:
            return range(1, most + 1)
        return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]

    def _busy(self, situation: Situation) -> str:
        more = situation.left + len(situation.waiting)
        count = "more trials" if math.isinf(more) else f"{more:g} more trial{'s' * (more != 1)}"
        return f"side by side: {count} to come for {situation.workers} workers"

    def _why(self, best: _Choice, one: _Choice, alone: float, situation: Situation) -> str:
        idle = situation.left + len(situation.waiting) + 1 < situation.workers
        cause = "workers would idle" if idle else "it would hold up the end"
        wait = f", after {best.start:.0f} s of waiting" if best.start > 0 else ""
        return (
            f"{best.ranks} of {situation.workers}: {cause}; about {best.end - best.start:.0f} s instead of {alone:.0f}"
            f"{wait}, the search ends {one.over - best.over:.0f} s sooner"
        )


def _start(width: int, free: int, running: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return when so many workers are free, and the worker-seconds that idle until then.

    ``running`` are (seconds left, width), by ascending seconds.
    """
    ready, gone = free, [(0.0, free)]
    for seconds, ranks in running:
        if ready >= width:
            break
        ready += ranks
        gone.append((seconds, ranks))
    start = gone[-1][0]
    return start, sum(ranks * (start - seconds) for seconds, ranks in gone)
