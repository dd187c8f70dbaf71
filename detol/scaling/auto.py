"""``--ranks auto``: each trial gets the width, at each leg, that lets the search end soonest.

Trials side by side lose nothing to communication or thin products, so that is what they do while there are enough of
them. A trial gets more workers when some would idle, or when it alone would hold up the end. Where it starts when only
a few workers are free, it may wait for more of them: their idle time counts.

The choice is a rollout (Bertsekas, Tsitsiklis and Wu 1997, Rollout algorithms for combinatorial optimization): for each
width of this trial the rest of the search is played to its end by some simple rules, and the soonest end counts
(:mod:`detol.scaling.playing`). Two of the rules are the fixed widths: so, as far as times are foretold, no search is
slower than with the better of them. What is to come is not known: it is played as the prior says, and again as if
nothing large came any more. The width is taken that is least behind the best one in the worse of the two, of about
equal ones the smallest.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from detol.scaling.correction import Correction
from detol.scaling.forecast import Forecast
from detol.scaling.playing import APART, EVEN, SHARED, TOGETHER, Times, played
from detol.search.records import Candidate, State, Trial
from detol.search.widths import Leg, Situation, Width

GAIN = 0.02
"""Share of the rest of the search that one rank may be behind: its curve repeats exactly."""

LEAST = 5.0
"""Seconds that it may be behind."""

EQUAL = 0.005
"""Widths that are behind by shares that differ by less than this are equal."""

ALL = 16
"""Workers up to which every width is looked at; beyond it powers of two, and all of them."""

PLAYED = 256
"""Trials to come that are played one by one; of more, as many stand for all."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A width: when its workers are free, when the trial ends, and when the search may, in each future (seconds)."""

    ranks: int
    start: float
    end: float
    over: tuple[float, ...]
    together: bool  # whether all others follow on all workers, one after the other

    def behind(self, soonest: Sequence[float]) -> float:
        """Return how much later the search ends than with the best width, as a share, in the worst future."""
        return max(over / best - 1 for over, best in zip(self.over, soonest, strict=True))


class Auto:
    """Chooses widths by a forecast; implements :class:`detol.search.protocols.Widths`.

    Args:
        forecast: how long trials take at each width.
        prior: gives networks such as the search will propose, e.g. samples of its space: what is to come is like them.
            Called once, at the first choice.
        gain: share of the rest of the search that one rank may be behind, >= 0.
        least: seconds that it may be behind, >= 0.
    """

    def __init__(
        self,
        forecast: Forecast,
        *,
        prior: Callable[[], Sequence[Candidate]] = tuple,
        gain: float = GAIN,
        least: float = LEAST,
    ) -> None:
        self._forecast, self._candidates, self._gain, self._least = forecast, prior, gain, least

    @cached_property
    def _prior(self) -> Sequence[Trial]:
        trials = [Trial(-1 - place, candidate, State.RUNNING, 1) for place, candidate in enumerate(self._candidates())]
        return [trial for trial in trials if self._forecast.epoch_seconds(trial, 1) > 0]

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
        usual = self._usual(leg, situation, correction)
        left = situation.left * statistics.median_low(times[0] for times in usual) if situation.left else 0.0
        if 2 * forecast.seconds(leg, 1, correction) <= left / workers:  # whoever comes next keeps everybody busy
            return Width(1, _busy(situation), foretold)
        choices = self._choices(leg, situation, correction, usual)
        soonest = [min(overs) for overs in zip(*(choice.over for choice in choices), strict=True)]
        one, least = choices[0], min(choice.behind(soonest) for choice in choices)
        if one.behind(soonest) <= least + self._gain:
            return Width(1, _busy(situation), foretold)
        best = next(choice for choice in choices if choice.behind(soonest) <= least + EQUAL)
        saved = max(mine - its for mine, its in zip(one.over, best.over, strict=True))
        if saved < self._least:
            return Width(1, _busy(situation), foretold)
        return Width(best.ranks, _why(best, one, saved, situation), forecast.epoch_seconds(leg.trial, best.ranks))

    def _choices(
        self, leg: Leg, situation: Situation, correction: Correction, usual: Sequence[Times]
    ) -> Sequence[_Choice]:
        forecast, workers = self._forecast, situation.workers
        ready = [0.0] * situation.free
        for other in situation.running:
            ready += [self._remaining(other, correction)] * other.trial.width
        ready.sort()
        rest = [self._times(other, workers, correction) for other in situation.waiting]
        coming = int(min(situation.left, PLAYED))
        futures = [[*rest, *(usual[place * len(usual) // coming] for place in range(coming))]]
        if coming:
            futures.append([*rest, *[statistics.median_low(usual)] * coming])
        found, widths, whole = [], self._widths(workers), leg.until == leg.trial.epochs
        for width in widths:
            start, seconds = ready[width - 1], forecast.seconds(leg, width, correction)
            then = sorted([*ready[width:], *[start + seconds] * width])
            ends = [played(then, future, widths, workers - width, whole=whole) for future in futures]
            over = tuple(min(each.values()) for each in ends)
            gang = width > 1 and all(
                each[TOGETHER] < min(each[rule] for rule in (APART, SHARED, EVEN)) for each in ends
            )
            found.append(_Choice(width, start, start + seconds, over, gang))
        return found

    def _remaining(self, other: Leg, correction: Correction) -> float:
        """Return the seconds that a running trial still takes; one that is late takes as long again as it has."""
        foretold = self._forecast.seconds(other, other.trial.width, correction)
        late = other.seconds > foretold / max(1, other.epochs)
        return max(foretold - other.seconds, other.seconds if late else 0.0)

    def _times(self, leg: Leg, workers: int, correction: Correction) -> Times:
        return tuple(self._forecast.seconds(leg, width, correction) for width in self._widths(workers))

    def _widths(self, workers: int) -> Sequence[int]:
        """Return the widths that are looked at, by ascending size: from one to all, or as many as a trial may have."""
        most = min(workers, self._forecast.most)
        if most <= ALL:
            return range(1, most + 1)
        return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]

    def _usual(self, leg: Leg, situation: Situation, correction: Correction) -> Sequence[Times]:
        """Return the seconds of trials such as those to come: as the prior, or as those that are known.

        They train for as many epochs as those that have ended did, on average.
        """
        like = self._prior or [other.trial for other in (*situation.waiting, *situation.running)] or [leg.trial]
        ended = [trial.epoch for trial in situation.ended if trial.epoch]
        epochs = round(statistics.fmean(ended)) if ended else leg.epochs
        legs = [Leg(_new(trial), max(1, epochs)) for trial in like]
        times = sorted(self._times(each, situation.workers, correction) for each in legs)
        # Neither the largest first nor last: by steps of about the golden ratio through the sorted ones.
        step = next(
            s for s in range(round(0.618 * len(times)) or 1, 2 * len(times) + 2) if math.gcd(s, len(times)) == 1
        )
        return [times[place * step % len(times)] for place in range(len(times))]


def _new(trial: Trial) -> Trial:
    """Return a trial as it was before its first epoch, so that nothing measured of it counts."""
    return Trial(trial.number, trial.candidate, State.RUNNING, trial.epochs)


def _busy(situation: Situation) -> str:
    more = situation.left + len(situation.waiting)
    count = "more trials" if math.isinf(more) else f"{more:g} more trial{'s' * (more != 1)}"
    return f"side by side: {count} to come for {situation.workers} workers"


def _why(best: _Choice, one: _Choice, saved: float, situation: Situation) -> str:
    if best.together:
        cause = "one trial after the other is sooner"
    elif situation.left + len(situation.waiting) + 1 < situation.workers:
        cause = "workers would idle"
    else:
        cause = "it would hold up the end"
    wait = f" after {best.start:.0f} s of waiting" if best.start > 0 else ""
    return (
        f"{best.ranks} of {situation.workers}: {cause}; about {best.end - best.start:.0f} s instead of "
        f"{one.end - one.start:.0f}{wait}, the search may end {saved:.0f} s sooner"
    )
