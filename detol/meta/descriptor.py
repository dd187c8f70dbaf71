"""The descriptor of a data set: what it is, its size, its statistics, and how a few fixed networks fare on it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detol.meta.dimension import intrinsic_dimension, neighbours

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

VERSION = "m1"
"""Of the figures and probes: descriptors of another version are made anew, not compared."""
ROWS = 1_000
"""Training samples that statistics are taken of at most: evenly over the rows, so that they are always the same."""
COLUMNS = 2_048
"""Numbers of a sample that distances are taken of at most, evenly over them."""


@dataclass(frozen=True)
class Descriptor:
    """A data set in figures.

    Args:
        data: its digest.
        name: for people.
        kind: ``image``, ``signal`` or ``features``.
        task: ``classification`` or ``regression``.
        figures: by name, see :func:`describe`; those that are not known are left out. Finite.
        probes: score (more is better) of fixed networks by their digest after one epoch (:mod:`detol.meta.probe`);
            empty when they were not trained.
    """

    data: str
    name: str
    kind: str
    task: str
    figures: Mapping[str, float] = field(default_factory=dict)
    probes: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON holds and :meth:`from_dict` reads."""
        return {
            "data": self.data,
            "name": self.name,
            "kind": self.kind,
            "task": self.task,
            "figures": dict(self.figures),
            "probes": dict(self.probes),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Descriptor":
        """Read what :meth:`as_dict` returned."""
        data, name, kind, task = (str(values[key]) for key in ("data", "name", "kind", "task"))
        return cls(data, name, kind, task, dict(values["figures"]), dict(values["probes"]))

    def with_probes(self, probes: Mapping[str, float]) -> "Descriptor":
        """Return it with the scores of the probes."""
        return replace(self, probes=dict(probes))


def describe(dataset: "Dataset") -> Descriptor:
    """Return the descriptor of a data set, without probes: from training samples alone, in well under a second.

    Figures: ``log_rows``, ``log_size`` (numbers of a sample), ``log_channels``, ``log_side`` (longest axis beside
    channels), ``log_outputs``; ``balance`` (entropy of the classes by that of equal ones) and ``largest`` (share of the
    largest class) of a classification, ``target_skewness`` of a regression; of the standardised samples ``skewness``,
    ``kurtosis`` (excess, signed logarithm), ``channel_spread`` (how unlike the channels' deviations are), ``constant``
    (share of numbers that never vary) and ``zeros`` (share that equals the most frequent value);
    ``intrinsic_dimension`` (logarithm; TwoNN) and ``nearest`` (how much more often than by chance the nearest other
    sample is of the same class, in [-1, 1]; of a regression the correlation of their targets).
    """
    rows = np.linspace(0, len(dataset.train) - 1, min(len(dataset.train), ROWS)).astype(np.intp)
    raw, labels = dataset.train.x[rows], dataset.train.y[rows]
    x = np.asarray((raw - dataset.mean) / dataset.std, np.float32)
    figures = sizes(dataset.shape, len(dataset.train), dataset.outputs)
    figures |= _labels(dataset.train.y, len(dataset.classes))
    figures |= _values(x, raw, np.asarray(dataset.std, np.float64))
    if len(rows) >= 3:
        flat = x.reshape(len(x), -1)
        flat = flat[:, np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], COLUMNS)).astype(np.intp)]
        near = neighbours(np.ascontiguousarray(flat))
        figures["intrinsic_dimension"] = math.log1p(intrinsic_dimension(near))
        figures["nearest"] = _nearest(labels, near.nearest, bool(dataset.classes))
    figures = {name: float(value) for name, value in figures.items() if math.isfinite(value)}
    return Descriptor(dataset.digest, dataset.name, dataset.kind, dataset.task, figures)


def sizes(shape: tuple[int, ...], rows: int, outputs: int) -> dict[str, float]:
    """Return the figures that need no samples: what is known of a data set that was searched before there were any."""
    found = {"log_rows": math.log(max(1, rows)), "log_outputs": math.log(max(1, outputs))}
    if shape:
        found["log_size"] = math.log(max(1, math.prod(shape)))
        found["log_channels"] = math.log(max(1, shape[0]))
        found["log_side"] = math.log(max(shape[1:], default=1))
    return found


def _labels(y: NDArray[Any], classes: int) -> dict[str, float]:
    if not classes:
        values = np.asarray(y, np.float64)
        return {"target_skewness": _signed_log(_moment((values - values.mean()) / max(values.std(), 1e-12), 3))}
    shares = np.bincount(y, minlength=classes) / max(1, len(y))
    there = shares[shares > 0]
    entropy = float(-(there * np.log(there)).sum())
    return {"balance": entropy / math.log(classes) if classes > 1 else 1.0, "largest": float(shares.max())}


def _values(x: NDArray[np.float32], raw: NDArray[Any], std: NDArray[np.float64]) -> dict[str, float]:
    flat = x.reshape(len(x), -1)
    deviations = np.log(np.maximum(std.reshape(-1), 1e-12))
    sample = raw.reshape(len(raw), -1)
    values, counts = np.unique(sample[:200], return_counts=True)
    return {
        "skewness": _signed_log(_moment(flat, 3)),
        "kurtosis": _signed_log(_moment(flat, 4) - 3),
        "channel_spread": float(deviations.std()),
        "constant": float((sample.max(axis=0) == sample.min(axis=0)).mean()),
        "zeros": float((sample == values[counts.argmax()]).mean()),
    }


def _nearest(labels: NDArray[Any], nearest: NDArray[np.intp], classes: bool) -> float:
    if classes:
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        chance = float((shares * shares).sum())
        same = float((labels == labels[nearest]).mean())
        return (same - chance) / (1 - chance) if chance < 1 else 0.0
    y, other = np.asarray(labels, np.float64), np.asarray(labels[nearest], np.float64)
    spread = y.std() * other.std()
    return float(((y - y.mean()) * (other - other.mean())).mean() / spread) if spread > 0 else 0.0


def _moment(values: NDArray[Any], power: int) -> float:
    return float(np.mean(np.asarray(values, np.float64) ** power))


def _signed_log(value: float) -> float:
    return math.copysign(math.log1p(abs(value)), value)
