"""``--ranks auto`` of a search: who chooses the width of each trial, and from what."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from detol.calibrated import where
from detol.config import Settings
from detol.scaling.auto import Auto
from detol.scaling.forecast import Forecast
from detol.scaling.machine import cached
from detol.scaling.presets import preset
from detol.search.protocols import SearchSpace, Widths
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin
from detol.workers import devices

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

PRIOR = 24
"""Samples of the space that stand for what a search will propose, where widths are chosen."""


def widths(settings: Settings, dataset: "Dataset", recipe: Recipe, space: SearchSpace, workers: int) -> Widths | None:
    """Return what chooses the ranks of each trial; ``None``: all have ``settings.width``.

    It knows this machine as it was calibrated last (``detol plan`` does that), or by a guess of proportions, which the
    seconds of the trials that have ended correct. A search never waits for a calibration.
    """
    if settings.ranks != "auto" or workers < 2 or settings.executor == "inline":
        return None

    device = where(settings.device)
    known = None if settings.ray else cached(device, workers, recipe.precision) or cached(device, workers)
    machine = known or preset(f"guess-{device}")
    forecast = Forecast(
        replace(machine, crowd=(machine.slowdown(workers),)),  # all workers compute, whatever the widths
        shape=dataset.shape,
        outputs=dataset.outputs,
        samples=len(dataset.train),
        validation=len(dataset.validation),
        batch=recipe.batch_size,
        value_bytes=dataset.train.x.dtype.itemsize,
        communication=recipe.communication,
        limit=workers if settings.ray or device == "cpu" else devices.gpus(),  # ranks that share a GPU gain nothing
    )

    def prior() -> list[Candidate]:
        rng = np.random.default_rng(settings.seed)
        drawn = [space.sample(rng) for _ in range(PRIOR)]
        return [Candidate(decisions, space.decode(decisions), Origin.SAMPLE) for decisions in drawn]

    return Auto(forecast, prior=prior)
