"""Where the weights of a search's best trials are kept, and the checkpoints of those that rest.

Every file is written whole or not at all: into a file beside it, to the disk, then renamed. Its name ends with a
checksum, so that a damaged one is never taken for whole.
"""

import errno
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from detol.search import spared
from detol.search.records import Trial
from detol.search.scoring import better

KEPT = 5
RECENT = 64
"""How many of the latest are kept besides the best, where trials take over the weights of others."""
LEFT = 16
"""How many checkpoints of trials that were stopped stay for later searches: of those that came furthest, the best."""
RESERVE = 2**30
"""Free bytes of the disk below which nothing more is written, or ``SHARE`` of the disk where that is less: the results
database needs them."""
SHARE = 0.05
FULL = (errno.ENOSPC, errno.EDQUOT)
_WEIGHTS = re.compile(r"weights/[\w.\-]+/(\d+)(-[0-9a-f]{8})?\.safetensors")
_CHECKPOINT = re.compile(r"\d+-\d+-[0-9a-f]{8}\.checkpoint")
_ANY = re.compile(rf"weights/\w[\w.\-]*/{_CHECKPOINT.pattern}")


class WeightsFolder:
    """Keeps the weights of the best trials of one search and the checkpoints of those that rest, nothing else.

    Args:
        home: the directory of the runs; what ``keep`` and ``rest`` return is relative to it.
        search: what tells this search from all others that share the directory, also those of other databases: its
            name and when it was made. Its weights are in ``home/weights/SEARCH``.
        kept: how many of the best are kept, >= 1.
        recent: how many of the latest, by their numbers, are kept besides, >= 0; of the others nothing is.
        known: trials of earlier runs of this search. Files that none of them names are removed.
        left: how many checkpoints of trials that were stopped stay for later searches, >= 0.
        reserve: free bytes of the disk below which nothing more is written; by default 1 GiB, or 5 % of the disk where
            that is less.
        warn: called with one line, once, when the disk is too full for checkpoints, and once for weights.
    """

    def __init__(
        self,
        home: Path,
        search: str,
        kept: int = KEPT,
        known: tuple[Trial, ...] = (),
        *,
        recent: int = 0,
        left: int = LEFT,
        reserve: int | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._home, self._folder, self._kept, self._latest = home, Path("weights") / search, kept, recent
        self._reserve, self._warn = reserve, warn
        self._warned: set[str] = set()
        self._best: list[Trial] = []
        self._places: dict[int, Path] = {}
        for trial in known:
            if trial.weights and trial.state.final and Path(trial.weights).parent == self._folder:
                self._best = self._with(trial)[:kept]
                if (path := home / trial.weights).is_file():
                    self._places[trial.number] = path
        self._most, self._left = left, sorted((entry for trial in known if (entry := self._entry(trial))), reverse=True)
        self._tidy({trial.weights for trial in known} | {place for *_, place in self._left})

    def keep(self, trial: Trial, weights: bytes) -> str:
        """Write the weights of one of the best so far, or of the latest; what falls out of these loses its own.

        A full disk costs the weights of this trial alone, not the trial: they can be trained again.
        """
        best, recent = self._with(trial)[: self._kept], self._last({*self._places, trial.number})
        stay = {other.number for other in best} | set(recent)
        if trial.number not in stay:
            return ""
        path = self._home / self._folder / f"{trial.number}-{zlib.crc32(weights):08x}.safetensors"
        gone = {number: place for number, place in self._places.items() if number not in stay}
        try:
            self._write(path, weights, tuple(gone.values()))
        except OSError as error:
            self._tell("weights", error, "those that are wanted are trained again")
            return ""
        self._best = best
        before = self._places.get(trial.number, path)
        for place in (*gone.values(), *([before] if before != path else [])):
            place.unlink(missing_ok=True)
        self._places = {number: place for number, place in self._places.items() if number not in gone}
        self._places[trial.number] = path
        return path.relative_to(self._home).as_posix()

    def rest(self, trial: Trial, checkpoint: bytes) -> str:
        """Write a checkpoint, unless the disk would be too full; an earlier one of the trial stays until ``drop``."""
        name = f"{trial.number}-{trial.epoch}-{zlib.crc32(checkpoint):08x}.checkpoint"
        path = self._home / self._folder / name
        try:
            self._write(path, checkpoint)
        except OSError as error:
            end = "trials that pause are stopped, but for the best, which are held in memory until the search ends"
            self._tell("checkpoints", error, end)
            return ""
        return path.relative_to(self._home).as_posix()

    def stay(self, trial: Trial, place: str) -> str:
        """Let the checkpoint of a stopped trial stay if it is among the best of those that came furthest.

        One that inherited comes behind all that did not: it is of use to children alone, and answers no other search.
        """
        if self._checkpoint(place) is None:
            return ""
        self._left.append((not trial.inherited, trial.epoch, trial.score, -trial.number, place))
        self._left.sort(reverse=True)
        gone = [worst for *_, worst in self._left[self._most :]]
        del self._left[self._most :]
        for worst in gone:
            if worst != place:  # that one goes with the next sweep, when no record names it
                self.drop(worst)
        return "" if place in gone else place

    def load(self, place: str) -> bytes | None:
        """Return a checkpoint or weights, or ``None`` when they are missing or no longer what was written."""
        if place.endswith(".safetensors"):
            return load_weights(self._home, place)
        if not _ANY.fullmatch(place):
            return None
        path = self._home / place
        try:
            found = path.read_bytes()
        except OSError:
            return None
        return found if f"-{zlib.crc32(found):08x}." in path.name else None

    def drop(self, place: str) -> None:
        """Remove a checkpoint; idempotent."""
        path = self._checkpoint(place)
        if path is not None:
            path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes, spare: Sequence[Path] = ()) -> None:
        """Write a file while the reserve stays free.

        Where there is no room, ``spare`` files go, if that is enough; then checkpoints that were left for later
        searches, the worst first.

        Raises:
            OSError: there is no room all the same, or the file cannot be written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                self._make_room(path.parent, len(data), spare)
                write_whole(path, data)
            except OSError as error:
                if error.errno not in FULL or not self._left:
                    raise
                self.drop(self._left.pop()[-1])
            else:
                return

    def _make_room(self, folder: Path, size: int, spare: Sequence[Path]) -> None:
        disk = shutil.disk_usage(folder)
        reserve = min(RESERVE, SHARE * disk.total) if self._reserve is None else self._reserve
        missing = size + reserve - disk.free
        if missing <= 0:
            return
        if sum(path.stat().st_size for path in spare if path.is_file()) < missing:
            text = f"{_size(disk.free)} of the disk are free, {_size(reserve)} stay free"
            raise OSError(errno.ENOSPC, text)
        for path in spare:
            path.unlink(missing_ok=True)

    def _tell(self, what: str, error: OSError, end: str) -> None:
        """Say once that the disk is too full, and what follows of it."""
        if what not in self._warned:
            self._warned.add(what)
            reason = error.strerror or str(error)
            self._warn(f"{what} cannot be kept in {self._home / self._folder} ({reason}): {end}")

    def _last(self, numbers: Iterable[int]) -> list[int]:
        """Return the latest of some trials: by their numbers, so that a resume has the same ones."""
        return sorted(numbers)[-self._latest :] if self._latest else []

    def _checkpoint(self, place: str) -> Path | None:
        path = Path(place)
        return self._home / path if path.parent == self._folder and _CHECKPOINT.fullmatch(path.name) else None

    def _entry(self, trial: Trial) -> tuple[bool, int, float, int, str] | None:
        """Return what is known of a checkpoint that an earlier run of this search left."""
        place = str(trial.extra.get(spared.LEFT, ""))
        path = self._checkpoint(place) if trial.state.final and not trial.reused else None
        found = (not trial.inherited, trial.epoch, trial.score, -trial.number, place)
        return found if path and path.is_file() else None

    def _tidy(self, named: set[str]) -> None:
        """Remove what an earlier run left that died in the middle: files that no trial names, and parts."""
        folder = self._home / self._folder
        for path in folder.iterdir() if folder.is_dir() else ():
            place = path.relative_to(self._home).as_posix()
            ours = _CHECKPOINT.fullmatch(path.name) or _WEIGHTS.fullmatch(place)
            if path.suffix == ".part" or (ours and place not in named):
                path.unlink(missing_ok=True)

    def _with(self, trial: Trial) -> list[Trial]:
        """Return the best so far and a trial, in their order."""
        place = 0
        while place < len(self._best) and not better(trial, self._best[place]):
            place += 1
        return [*self._best[:place], trial, *self._best[place:]]


class NoWeights:
    """Keeps no weights, and checkpoints in memory alone: for searches whose trials have no weights."""

    def __init__(self) -> None:
        self._resting: dict[str, bytes] = {}
        self._mark = uuid.uuid4().hex  # a place that another one gave means nothing here

    def keep(self, trial: Trial, weights: bytes) -> str:  # noqa: ARG002  the protocol's arguments
        """Keep nothing."""
        return ""

    def rest(self, trial: Trial, checkpoint: bytes) -> str:
        """Keep a checkpoint in memory."""
        place = f"memory/{self._mark}/{trial.number}-{trial.epoch}"
        self._resting[place] = checkpoint
        return place

    def stay(self, trial: Trial, place: str) -> str:  # noqa: ARG002  the protocol's arguments
        """Keep nothing."""
        return ""

    def load(self, place: str) -> bytes | None:
        """Return a checkpoint, ``None`` when another process had it."""
        return self._resting.get(place)

    def drop(self, place: str) -> None:
        """Forget a checkpoint."""
        self._resting.pop(place, None)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that, whatever happens, it is there whole or not at all.

    Raises:
        OSError: it could not be written, and is not there (an earlier file of that name is as it was).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def load_weights(home: Path, place: str) -> bytes | None:
    """Return kept weights, or ``None`` when they are no longer there (a better trial took their place) or damaged."""
    named = _WEIGHTS.fullmatch(place)
    if named is None:
        return None
    try:
        found = (home / place).read_bytes()
    except OSError:
        return None
    return found if named[2] in (None, f"-{zlib.crc32(found):08x}") else None  # the first ones had no checksum


def _size(count: float) -> str:
    """Return bytes as a person reads them."""
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"
