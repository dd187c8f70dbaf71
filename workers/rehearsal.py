"""Entries for executors that train nothing: to measure the machinery around trainings, and to rehearse a search.

Each is called as an executor calls :func:`detol.workers.training_job.run` and is named to the Ray pool as
``detol.workers.rehearsal:NAME``. Scores come from the seed alone, so that a rehearsed search is reproducible.
"""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from detol.search.records import Job, Report

SLICE = 0.05
"""Seconds between two looks at a stop while an epoch is waited for."""


def instant(job: Job, data: Any, *, group: Any, stop: Callable[[], bool]) -> Iterator[Report]:  # noqa: ARG001
    """Report every epoch at once, with scores that rise from the seed's level."""
    yield from _epochs(job, stop, seconds=0.0)


def second(job: Job, data: Any, *, group: Any, stop: Callable[[], bool]) -> Iterator[Report]:  # noqa: ARG001
    """Take one second for the whole trial, asleep."""
    yield from _epochs(job, stop, seconds=1.0)


def _epochs(job: Job, stop: Callable[[], bool], seconds: float) -> Iterator[Report]:
    level = random.Random(job.seed).random()  # noqa: S311  a made-up score, no secret
    began = time.monotonic()
    for epoch in range(1, job.epochs + 1):
        until = began + seconds * epoch / job.epochs
        while (left := until - time.monotonic()) > 0 and not stop():
            time.sleep(min(left, SLICE))
        if stop():
            return
        score = level * (1 - 0.5**epoch)
        yield Report(epoch, {"val_accuracy": score, "val_loss": 1 - score, "score": score}, seconds / job.epochs)
