"""Where the weights of a search's best trials are kept."""

import re
from pathlib import Path

from detol.search.records import Trial
from detol.search.scoring import better

KEPT = 5


class WeightsFolder:
    """Keeps the weights of the best trials of one search, each written whole or not at all.

    Args:
        home: the directory of the runs; what ``keep`` returns is relative to it.
        search: what tells this search from all others that share the directory, also those of other databases: its
            name and when it was made. Its weights are in ``home/weights/SEARCH``.
        kept: how many of the best are kept, >= 1; of the others nothing is.
        known: finished trials of earlier runs of this search.
    """

    def __init__(self, home: Path, search: str, kept: int = KEPT, known: tuple[Trial, ...] = ()) -> None:
        self._home, self._folder, self._kept = home, Path("weights") / search, kept
        self._best: list[Trial] = []
        for trial in known:
            if trial.weights and Path(trial.weights).parent == self._folder:
                self._insert(trial)

    def keep(self, trial: Trial, weights: bytes) -> str:
        """Write the weights if the trial is among the best so far; a trial that falls out of them loses its own."""
        self._insert(trial)
        dropped = self._best[self._kept :]
        self._best = self._best[: self._kept]
        for other in dropped:
            if other.number != trial.number:
                self._path(other.number).unlink(missing_ok=True)
        if any(other.number == trial.number for other in dropped):
            return ""
        path = self._path(trial.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        try:
            part.write_bytes(weights)
            part.replace(path)
        except OSError:
            # A full disk costs the weights of this trial, not the trial: they can be trained again.
            part.unlink(missing_ok=True)
            self._best = [other for other in self._best if other.number != trial.number]
            return ""
        return path.relative_to(self._home).as_posix()

    def _path(self, number: int) -> Path:
        return self._home / self._folder / f"{number}.safetensors"

    def _insert(self, trial: Trial) -> None:
        place = 0
        while place < len(self._best) and not better(trial, self._best[place]):
            place += 1
        self._best.insert(place, trial)


class NoWeights:
    """Keeps nothing: for searches whose trials have no weights."""

    def keep(self, trial: Trial, weights: bytes) -> str:  # noqa: ARG002  the protocol's arguments
        """Keep nothing."""
        return ""


def load_weights(home: Path, place: str) -> bytes | None:
    """Return kept weights, or ``None`` when they are no longer there (a better trial took their place)."""
    if not place or not re.fullmatch(r"weights/[\w.\-]+/\d+\.safetensors", place):
        return None
    path = home / place
    return path.read_bytes() if path.is_file() else None
