"""A machine in numbers: what a calibration measures once, what a file or a preset says."""

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from detol.errors import UsageError
from detol.scaling.link import Link
from detol.scaling.rates import KINDS, Rate

FORMAT = 1
MEASURED = 4
"""Counts up when what is measured changes: a calibration that was kept before is not of the same quantities."""


@dataclass(frozen=True)
class Machine:
    """How fast the ranks of a training compute, talk and read. All times are seconds, of forward and backward pass.

    Args:
        name: for people.
        device: ``cpu`` or ``cuda``.
        ranks: how many there are of it; 0: as many as one likes.
        rates: of products, by kind (:data:`detol.scaling.rates.KINDS`).
        norm: of one value of a normalisation.
        free: of one value of what has no parameters (activation, pooling, sums).
        norm_start: of a normalisation however few its values, where a device computes while the host is ahead.
        free_start: of what has no parameters, likewise.
        sample: of one number of a sample: gathered, converted, standardised, augmented.
        update: of one parameter in the optimiser.
        layer: of starting one layer's work, whatever its size.
        tensor: of one parameter tensor in the optimiser, whatever its size.
        step: of what is left of a step.
        layer_wide: of starting a layer where several ranks train together (some of their steps are not recorded in a
            graph, as those of one are); 0: as alone.
        step_wide: of what is left of such a step, likewise.
        queued: whether a device works through a queue (a GPU): starting overlaps with computing.
        joined: whether convolutions of a batch are one product (:func:`detol.scaling.rates.seconds`).
        link: between ranks of one host.
        across: between hosts; ``None``: there is one host.
        per_host: ranks of one host.
        overlap: share of the communication that can run beside the backward pass, in [0, 1].
        crowd: slowdown of computing while 1, 2, ... ranks of a host compute; the last holds for more.
        setup: until a group of ranks has formed.
        agree: of the small message by which all ranks agree on a step's end; 0 for none.
        storage: bytes a second that all ranks together read; infinite when the data are resident.
        files: bytes a second at which a file is read here that is not in memory.
        prefetch: whether reading is hidden behind computing.
        measured: when it was calibrated, or empty.
        sources: where the numbers are from.
    """

    name: str
    device: str
    rates: Mapping[str, Rate]
    link: Link
    ranks: int = 0
    norm: float = 0.0
    free: float = 0.0
    norm_start: float = 0.0
    free_start: float = 0.0
    sample: float = 0.0
    update: float = 0.0
    layer: float = 0.0
    tensor: float = 0.0
    step: float = 0.0
    layer_wide: float = 0.0
    step_wide: float = 0.0
    queued: bool = False
    joined: bool = True
    across: Link | None = None
    per_host: int = 1
    overlap: float = 1.0
    crowd: tuple[float, ...] = (1.0,)
    setup: float = 0.0
    agree: float = 0.0
    storage: float = math.inf
    files: float = 5e8
    prefetch: bool = False
    measured: str = ""
    sources: tuple[str, ...] = field(default=())

    def slower(self, times: float) -> "Machine":
        """Return it with computing that takes so many times longer: products and values, not starts and messages."""
        rates = {kind: replace(rate, peak=rate.peak / times) for kind, rate in self.rates.items()}
        return replace(self, rates=rates, norm=self.norm * times, free=self.free * times)

    def starts(self, layers: int, tensors: int, width: int) -> float:
        """Return the seconds that starting a step's work takes, of so many layers and parameter tensors."""
        layer, one = (self.layer, self.step) if width == 1 or not self.layer_wide else (self.layer_wide, self.step_wide)
        return one + layer * layers + self.tensor * tensors

    def between(self, width: int) -> Link:
        """Return the link that bounds a ring of some ranks: the one across hosts as soon as it is in it."""
        return self.link if self.across is None or width <= self.per_host else self.across

    def slowdown(self, width: int) -> float:
        """Return how much slower each rank computes while so many compute side by side."""
        here = min(width, self.per_host) if self.across else width
        return self.crowd[min(max(here, 1), len(self.crowd)) - 1]

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON holds; infinite is left out."""
        values = {**asdict(self), "rates": {kind: asdict(rate) for kind, rate in self.rates.items()}, "format": FORMAT}
        if math.isinf(self.storage):
            del values["storage"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "machine") -> "Machine":
        """Read what :meth:`as_dict` wrote, or a person did.

        Raises:
            UsageError: a key that is unknown or missing, or a value against its rule.
        """
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in values.items() if name != "format"}
        for name in given:
            if name not in known:
                raise UsageError(f"{where} has an unknown key {name!r}: known are {', '.join(sorted(known))}")
        for name in ("name", "device", "rates", "link"):
            if name not in given:
                raise UsageError(f"{where} lacks {name!r}: detol plan --json shows a whole machine")
        if values.get("format", FORMAT) != FORMAT:
            raise UsageError(
                f"{where} has format {values['format']!r}, known is {FORMAT}: take a machine of this detol"
            )
        try:
            rates = {kind: Rate(**rate) for kind, rate in given["rates"].items()}
            given |= {"rates": {kind: rates.get(kind, next(iter(rates.values()))) for kind in KINDS}}
            given |= {"link": Link(**given["link"])}
            given |= {"across": Link(**given["across"])} if given.get("across") else {"across": None}
            given |= {name: tuple(given[name]) for name in ("crowd", "sources") if name in given}
            made = cls(**given)
            made.check()
        except (TypeError, ValueError, AttributeError, StopIteration) as error:
            raise UsageError(f"{where} is not a machine: {error}") from None
        return made

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            ValueError: another type, an unknown device, a negative time, an overlap outside [0, 1], a crowd that speeds
                up, no bandwidth.
        """
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device is cpu or cuda, got {self.device!r}")
        kinds: dict[type, tuple[str, ...]] = {str: ("name", "measured"), int: ("ranks", "per_host")}
        kinds[bool] = ("queued", "joined", "prefetch")
        for name, kind in ((name, kind) for kind, names in kinds.items() for name in names):
            value = getattr(self, name)
            if type(value) is not kind:  # True is an int
                raise ValueError(f"{name} is of type {kind.__name__}, got {value!r}")
        values = ("norm", "free", "norm_start", "free_start", "sample", "update")
        starts = ("layer", "tensor", "step", "layer_wide", "step_wide")
        for name in (*values, *starts, "setup", "agree"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} is in seconds, >= 0, got {getattr(self, name)!r}")
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap is in [0, 1], got {self.overlap!r}")
        if not self.crowd or not all(1 <= slower < math.inf for slower in self.crowd):
            raise ValueError(f"crowd holds slowdowns >= 1, got {self.crowd!r}")
        if not (self.storage > 0 and self.files > 0) or self.per_host < 1 or self.ranks < 0:
            raise ValueError("storage and files are > 0, per_host >= 1 and ranks >= 0")

    def with_storage(self, bandwidth: float, *, prefetch: bool = True) -> "Machine":
        """Return it with data that are read from storage at so many bytes a second."""
        return replace(self, storage=bandwidth, prefetch=prefetch)


def read(path: Path) -> Machine:
    """Read a machine from a JSON file.

    Raises:
        UsageError: no such file, no JSON, or no machine.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the machine {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path} holds no machine: it is one JSON object, see detol plan --json")
    return Machine.from_dict(values, str(path))


def write(machine: Machine, path: Path) -> None:
    """Write a machine to a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(machine.as_dict(), indent=2), encoding="utf-8")
    beside.replace(path)


def cache(device: str, ranks: int, precision: str = "float32") -> Path:
    """Return where the calibration of this host is kept: by host, device, ranks, precision and version of torch.

    In ``$XDG_CACHE_HOME/detol``, by default ``~/.cache/detol``.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        torch = version("torch")
    except PackageNotFoundError:  # what has no torch is not calibrated
        torch = "none"
    host = "".join(c if c.isalnum() or c in "-." else "-" for c in platform.node()) or "host"
    return base / "detol" / f"machine-{FORMAT}.{MEASURED}-{host}-{device}-{ranks}-{precision}-torch{torch}.json"


def cached(device: str, ranks: int, precision: str = "float32") -> Machine | None:
    """Return the calibration of this host, or ``None``: there is none, or it cannot be read any more."""
    path = cache(device, ranks, precision)
    try:
        return read(path) if path.is_file() else None
    except UsageError:
        return None
