"""Whether a training fits the memory of its device, by an estimate that measured steps correct."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import torch

from detol.graph import cost
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.workers.tensors import Tensors

FEWEST = 2
"""Samples that batch norm needs."""
SHARE = 0.85
"""Of the free memory that a training may take: workspaces of libraries and gaps need the rest."""
LEAST = 0.05
"""Share of that below which a measured step says nothing of larger ones: it is workspaces of libraries above all."""
GIB = 2**30

_ratios: dict[str, float] = {}
"""Measured over estimated bytes, by precision; of this worker."""


def estimate(
    topology: Topology, shape: Sequence[int], outputs: int, recipe: Recipe, count: int, *, recomputed: bool = False
) -> float:
    """Return the bytes that training takes with ``count`` samples at once.

    Until a step was measured in this precision, activations are taken for float32, which is the most they can be.
    """
    slots = (2 if recipe.optimiser in ("adamw", "lamb") else 1) + (recipe.averaging > 0)
    needed = cost.memory(topology, shape, outputs, count, slots=slots, recomputed=recomputed)
    return needed * _ratios.get(recipe.precision, 1.0)


def note(recipe: Recipe, estimated: float, measured: float) -> None:
    """Correct later estimates by a step that was measured; the worst seen in a precision counts.

    Args:
        recipe: of the step.
        estimated: bytes, by :func:`estimate`.
        measured: bytes at the peak.
    """
    ratio = measured / estimated * _ratios.get(recipe.precision, 1.0)
    _ratios[recipe.precision] = max(ratio, _ratios.get(recipe.precision, 0.0))


def forget() -> None:
    """Drop what was measured."""
    _ratios.clear()


def room(device: torch.device) -> float:
    """Return the bytes that a training may take on a device; on a CPU nobody knows, since memory is shared."""
    if device.type != "cuda":
        return math.inf
    # What torch keeps of earlier trainings is in use for the driver, and free for this one.
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return SHARE * (torch.cuda.mem_get_info(device)[0] + kept)


class Footprint:
    """The memory of one training.

    Args:
        topology: of the network.
        data: that it is trained on.
        recipe: how.
        count: samples that this rank goes through at once.

    Attributes:
        why: why its activations must be recomputed; empty where they fit.
    """

    def __init__(self, topology: Topology, data: Tensors, recipe: Recipe, count: int) -> None:
        self._topology, self._data, self._recipe, self._count = topology, data, recipe, count
        self._real = data.device.type == "cuda"
        self._room = room(data.device)
        self._estimate = self._needed(count) if math.isfinite(self._room) else 0.0
        self._noted = False
        fits = self._estimate <= self._room
        sizes = f"{self._estimate / GIB:.1f} GiB are estimated, {self._room / GIB:.1f} are there"
        self.why = "" if fits else sizes
        if self._real:
            self._before = torch.cuda.memory_allocated(data.device)
            torch.cuda.reset_peak_memory_stats(data.device)

    def note(self) -> None:
        """Correct later estimates by what the steps so far took."""
        if self._real and not self.why and not self._noted:
            self._noted = True
            peak = torch.cuda.max_memory_allocated(self._data.device) - self._before
            if peak >= LEAST * self._room:
                note(self._recipe, self._estimate, float(peak))

    def advice(self) -> str:
        """Return what to do when memory has run out; empty when nobody knows.

        On a GPU by the largest step that is measured to fit, in seconds; where that cannot be, by the estimate.
        """
        recomputed, whole = bool(self.why), self._count * self._recipe.accumulate
        most = self._probed() if self._real and self._count >= FEWEST else self._count
        if not most:
            return f"not even {FEWEST} samples at once fit, as measured"
        if most < self._count:
            return f"set recipe.accumulate={-(-whole // most)}: {most:,} samples at once fit, as measured"
        for parts in range(self._recipe.accumulate + 1, whole // FEWEST + 1):
            if math.isfinite(self._room) and self._needed(-(-whole // parts), recomputed) <= self._room:
                return f"set recipe.accumulate={parts}, by which a step should fit"
        return ""

    def _probed(self) -> int:
        """Return the most samples up to those of this training of which a step fits; all where nobody can tell."""
        from detol.workers.stepping.probe import largest, measured

        steps = replace(self._recipe, batch_size=self._count, accumulate=1)
        with suppress(RuntimeError, MemoryError, OSError):  # the device may be past measuring anything
            peak = measured(self._topology, self._data, steps)
            return largest(self._topology, self._data, steps, self._room, peak)
        return self._count

    def _needed(self, count: int, recomputed: bool = False) -> float:
        data = self._data
        return estimate(self._topology, data.shape, data.outputs, self._recipe, count, recomputed=recomputed)
