"""How busy the workers were, from the moments at which trials started and ended."""


class Busy:
    """Adds up the seconds that ranks were training.

    Args:
        workers: how many there are; 0 when nobody knows.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._running: dict[int, int] = {}
        self._began: float | None = None
        self._at = 0.0
        self._seconds = 0.0

    def seen(self, number: int, width: int, at: float, *, running: bool) -> None:
        """Take that a trial on ``width`` ranks runs, or does not, from a moment on (seconds since 1970)."""
        if self._began is None:
            if not running:
                return
            self._began = self._at = at
        self._pass(at)
        if running:
            self._running[number] = width
        else:
            self._running.pop(number, None)

    def share(self, now: float) -> float | None:
        """Return busy seconds of ranks over seconds of workers since the first start; ``None`` before it."""
        if self._running:
            self._pass(now)
        if self._began is None or not self._workers or self._at <= self._began:
            return None
        return min(1.0, self._seconds / (self._workers * (self._at - self._began)))

    def _pass(self, at: float) -> None:
        passed = max(0.0, at - self._at)
        self._seconds += passed * sum(self._running.values())
        self._at += passed
