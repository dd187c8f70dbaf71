"""How long trials will take at each width: the model of a step, corrected by what was measured of trials so far."""

from collections.abc import Sequence
from itertools import islice

from detol.errors import TopologyError
from detol.graph.topology import Topology
from detol.scaling.compression import factor
from detol.scaling.correction import NONE, Correction, learnt
from detol.scaling.machine import Machine
from detol.scaling.presets import guessed
from detol.scaling.step import step
from detol.scaling.work import Work
from detol.search.records import Trial
from detol.search.spared import KNOWN
from detol.search.stages import steps_of
from detol.search.widths import FORECAST, Leg, width_at

LATEST = 25
"""Ended trials of one rank, and of several, whose measured seconds correct the model: wide ones are rare."""

LOOKED_AT = 1000
"""Ended trials that are looked through for them: it is done whenever a trial starts."""

FORWARD = 1 / 3
"""Share of a step's computing that a forward pass takes: validation."""


class Forecast:
    """Foretells the seconds of trials.

    Args:
        machine: where they train.
        shape: of one sample.
        outputs: of the networks.
        samples: that an epoch trains on, >= 1.
        validation: samples that it is measured on.
        batch: samples of a step, over all ranks.
        value_bytes: of one number of a sample.
        communication: how gradients are exchanged, as a recipe names it.
        limit: the most ranks that one trial may have, >= 1.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        shape: Sequence[int],
        outputs: int,
        samples: int,
        validation: int = 0,
        batch: int = 64,
        value_bytes: float = 4.0,
        communication: str = "plain",
        limit: int = 2**20,
    ) -> None:
        self.machine = machine
        self._shape, self._outputs, self._value_bytes = tuple(shape), outputs, value_bytes
        self._samples, self._validation, self._batch = samples, validation, batch
        self._communication, self._limit = communication, limit
        self._works: dict[str, Work | None] = {}
        self._known: dict[tuple[str, int], float] = {}

    @property
    def most(self) -> int:
        """The most ranks of one trial: no more than may be, two samples for each, as batch norm needs."""
        return max(1, min(self._limit, min(self._batch, self._samples) // 2))

    def epoch_seconds(self, trial: Trial, width: int) -> float:
        """Return the seconds of one epoch by the model alone; 0 for a network that it cannot count."""
        key = (trial.digest, width)
        if key not in self._known:
            self._known[key] = self._epoch(trial.digest, trial.candidate.topology, width)
        return self._known[key]

    def measured(self, ended: Sequence[Trial]) -> bool:
        """Return whether seconds can be foretold: the machine was measured, or a trial of this search was."""
        return not guessed(self.machine) or any(FORECAST in trial.extra for trial in ended)

    def correction(self, ended: Sequence[Trial]) -> Correction:
        """Return what the latest trials teach of how much longer epochs take than was foretold."""
        measured: dict[bool, list[tuple[float, int, float]]] = {False: [], True: []}
        for trial in islice(reversed(ended), LOOKED_AT):
            foretold, kept = float(trial.extra.get(FORECAST, 0.0)), measured[trial.width > 1]
            if foretold > 0 and trial.epoch and trial.seconds > 0 and len(kept) < LATEST:
                kept.append((foretold, trial.width, trial.seconds / trial.epoch))
        return learnt([*measured[False], *measured[True]])

    def seconds(self, leg: Leg, width: int, correction: Correction = NONE) -> float:
        """Return the seconds of what is left of a leg at a width, forming the group included.

        A trial that has trained here already is foretold by its own last epoch: only the ratio of two widths is the
        model's then, corrected.
        """
        trial = leg.trial
        own = trial.reports[-1].seconds if trial.reports and KNOWN not in trial.extra else 0.0
        pace = self._corrected(trial, width, correction)
        before = self._corrected(trial, width_at(trial, trial.epoch), correction) if own > 0 else 0.0
        if before > 0:
            pace *= own / before
        return leg.epochs * pace + (self.machine.setup if width > 1 else 0.0)

    def _corrected(self, trial: Trial, width: int, correction: Correction) -> float:
        model = self.epoch_seconds(trial, width)
        return model * correction(model, width) if model > 0 else 0.0

    def _epoch(self, digest: str, topology: Topology, width: int) -> float:
        if digest not in self._works:
            try:
                self._works[digest] = Work.of(topology, self._shape, self._outputs, value_bytes=self._value_bytes)
            except TopologyError:
                self._works[digest] = None
        work = self._works[digest]
        if work is None:
            return 0.0
        steps = steps_of(self._samples, self._batch, width)
        batch = -(-self._samples // steps)
        fewer = factor(self._communication, work, width)
        one = step(work, self.machine, batch, width, compression=fewer)
        looked = FORWARD * (one.compute + one.skinny) / one.local * self._validation / one.width
        return steps * one.seconds + looked
