"""What bounds a search and each of its trials."""

import math
from dataclasses import dataclass

from detol.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one search.

    Args:
        trials: how many trials it may hold, reused ones included, refused ones not; >= 1.
        seconds: consumed time after which nothing is started and what runs is stopped; downtime does not count; > 0.
        trial_seconds: time after which one attempt of a trial ends as TIMED_OUT; > 0.
        start_seconds: how long the search waits for a first worker before it gives up.
        refusals: how many candidates in a row may be refused before the search ends: its limits leave nothing to try.
    """

    trials: float = math.inf
    seconds: float = math.inf
    trial_seconds: float = math.inf
    start_seconds: float = 180.0
    refusals: int = 1000

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise UsageError(f"a search needs at least 1 trial, got --trials {self.trials:g}")
        if not self.seconds > 0:
            raise UsageError(f"a search needs time: --hours must be > 0, got {self.seconds / 3600:g}")
        if not self.trial_seconds > 0:
            raise UsageError(f"a trial needs time: --trial-minutes must be > 0, got {self.trial_seconds / 60:g}")
