"""Machines that are known from publications, and the guesses that stand in until this one is calibrated."""

from detol.errors import unknown
from detol.scaling.link import Link
from detol.scaling.machine import Machine
from detol.scaling.rates import DEPTHWISE, KINDS, Rate

FDR = Link(bandwidth=6.8e9, latency=1.3e-6)
"""4x FDR InfiniBand: 4 x 14.0625 Gbit/s, 64 of 66 bits data (InfiniBand Trade Association, roadmap), so 54.5 Gbit/s; a
message from program to program takes about 1.3 microseconds."""

_FDR_SOURCE = "4x FDR InfiniBand: 54.5 Gbit/s of data, 1.3 us a message (InfiniBand Trade Association, roadmap)"
_TIMES = "seconds of an iteration: Keuper and Pfreundt 2016 (arXiv 1609.06870, table 1)"


def _published(name: str, peak: float, free: float) -> Machine:
    """Return a cluster of nodes with one GPU each; peak and ``free`` were fitted to its published seconds.

    So a peak may be above that of the data sheet: some convolutions need fewer multiplications than counted (Winograd).
    """
    return Machine(
        name=name,
        device="cuda",
        rates=dict.fromkeys(KINDS, Rate(peak, rows=64, inner=64, outputs=64)),
        link=FDR,
        norm=2 * free,
        free=free,
        layer=2e-5,
        queued=True,
        sources=(_FDR_SOURCE, _TIMES, "half sizes of products: 64, a tile of cuBLAS"),
    )


def _guess(device: str) -> Machine:
    """Return what stands in for this machine until it is calibrated: proportions, no more than that."""
    gpu = device == "cuda"
    peak, deep = (5e12, 2e11) if gpu else (2e10, 2e9)
    rates = {kind: Rate(peak, *((64, 64, 64) if gpu else (4, 8, 16))) for kind in KINDS}
    return Machine(
        name=f"guess-{device}",
        device=device,
        rates={**rates, DEPTHWISE: Rate(deep)},
        link=Link(5e10, 1e-5, 3e-5) if gpu else Link(1e9, 5e-5, 2e-4),
        norm=2e-11 if gpu else 2e-9,
        free=1e-11 if gpu else 1e-9,
        sample=1e-11 if gpu else 2e-9,
        update=2e-11 if gpu else 1e-9,
        layer=4e-5,
        tensor=1e-6,
        step=5e-4,
        queued=gpu,
        overlap=1.0 if gpu else 0.0,
        crowd=(1.0,) if gpu else (1.0, 1.2),
        setup=2.0 if gpu else 1.0,
        agree=2e-4,
        sources=("a guess until detol plan --recalibrate has measured this machine",),
    )


PRESETS = {
    "fdr-k80": _published("fdr-k80", 1.34e12, 9.8e-10),
    "fdr-titanx": _published("fdr-titanx", 4.67e12, 1.0e-10),
    "guess-cpu": _guess("cpu"),
    "guess-cuda": _guess("cuda"),
}
"""Machines by name."""


def preset(name: str) -> Machine:
    """Return a machine by name.

    Raises:
        UsageError: an unknown name.
    """
    if name not in PRESETS:
        raise unknown("machine", name, [*PRESETS, "cached"])
    return PRESETS[name]


def guessed(machine: Machine) -> bool:
    """Return whether a machine is a guess: its proportions may be trusted, its seconds may not."""
    return machine.name.startswith("guess-")
