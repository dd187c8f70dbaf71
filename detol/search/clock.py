"""Real time. The simulated one is beside the simulated executor."""

import time


class RealClock:
    """Seconds of the machine's monotonic clock."""

    def now(self) -> float:
        """Return seconds since some fixed moment; never falls."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)
