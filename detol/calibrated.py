"""The calibration of this machine: read from the cache, or measured once and kept."""

from collections.abc import Callable

from detol.scaling.machine import Machine, cache, cached, write
from detol.workers import devices


def where(device: str) -> str:
    """Return ``cuda`` or ``cpu`` for a device setting: ``auto`` is the GPU where there is one."""
    return device if device != "auto" else "cuda" if devices.gpus() else "cpu"


def machine(
    device: str,
    ranks: int,
    *,
    precision: str = "float32",
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Machine:
    """Return this machine, measured: half a minute to a minute the first time.

    Args:
        device: ``cpu`` or ``cuda``.
        ranks: how many workers it has.
        precision: of products, as a recipe names it.
        again: measure it even if it was measured before.
        say: called with a line about what is measured.

    Raises:
        UsageError: no such device.
    """
    devices.check(device)
    known = None if again else cached(device, ranks, precision)
    if known is not None:
        return known
    from detol.workers.calibration.measure import measure

    made = measure(device, ranks, precision=precision, say=say)
    place = cache(device, ranks, precision)
    try:
        write(made, place)
        say(f"kept in {place}")
    except OSError as error:
        say(f"the calibration could not be kept in {place} ({error.strerror}): it is measured again next time")
    return made
