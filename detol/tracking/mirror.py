"""What the mirror process does with the messages: keep what each trial should show, and bring MLflow there.

It works by levels, not by events, so that news which came meanwhile go out together, and a store that was away is
caught up by trying again.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from detol.search.records import State
from detol.tracking.busy import Busy
from detol.tracking.parent import Parent
from detol.tracking.runs import Runs, writers
from detol.tracking.uri import redact
from detol.tracking.wanted import Point, Wanted
from detol.tracking.wire import Epoch, Finish, Message, Seen, Start

_PARENT_EVERY = 1.0
"""Seconds between two updates of the parent run while trials come in."""
_FIRST_WAIT, _LAST_WAIT = 1.0, 30.0
"""Seconds until the next try after a failure: doubled each time, up to the second."""


class Mirror:
    """Brings MLflow to what the messages say. One thread; no method raises.

    Args:
        start: which search, and where.
        say: takes ``{"warning": ...}`` at the first failure, ``{"note": ...}`` when MLflow is back.
        now: seconds since some moment, for the waits.

    Attributes:
        added: runs that were made.
        complete: times that a trial was shown already as it should be.
    """

    def __init__(self, start: Start, say: Callable[[Mapping[str, Any]], None], now: Callable[[], float]) -> None:
        self._start = start
        self._say = say
        self._now = now
        self._runs: Runs | None = None
        self._parent: Parent | None = None
        self._busy = Busy(start.workers)
        self._known: dict[int, Wanted] = {}
        self._dirty: dict[int, None] = {}  # a set in order
        self._finish: Finish | None = None
        self._finished = False
        self._stale = True  # whether the parent run lags behind its children; at first there is none
        self._shown = -_PARENT_EVERY
        self._warned = False
        self._wait = 0.0
        self._next = 0.0
        self.added = 0
        self.complete = 0

    @property
    def behind(self) -> int:
        """How many trials are not yet shown as they should be."""
        return len(self._dirty)

    def take(self, message: Message) -> None:
        """Note what should be shown; writes nothing."""
        if isinstance(message, Seen):
            number = message.trial.number
            running = message.trial.state is State.RUNNING
            self._busy.seen(number, message.trial.width, message.at, running=running)
            self._known[number] = Wanted.seen(message.trial, message.at, self._known.get(number))
            self._dirty[number] = None
        elif isinstance(message, Epoch) and message.number in self._known:
            self._known[message.number].add(Point(message.report, message.score, message.at))
            self._dirty[message.number] = None
        elif isinstance(message, Finish):
            self._finish = message

    def work(self, *, patient: bool = True, progress: Callable[[int], None] | None = None) -> bool:
        """Write what is missing and return whether nothing is left.

        Args:
            patient: after a failure wait longer and longer before the next try, and update the parent run once a
                second at most; else do all of it now.
            progress: called after each trial with the number of those left.
        """
        if patient and self._now() < self._next:
            return False
        if not self._dirty and self._finish is None and not self._stale:
            return True
        try:
            self._write(patient, progress)
        except Exception as error:  # the one place: MLflow, drivers and network have no common base
            self._fail(error)
            return False
        if self._wait:
            self._wait = 0.0
            self._say({"note": f"MLflow at {redact(self._start.uri)} is back"})
        return True

    def end(self, *, clean: bool) -> None:
        """End the runs that are open; ``clean`` is false when the controller is gone without a word."""
        if self._runs is None or self._parent is None:
            return
        with contextlib.suppress(Exception):
            for child in self._runs.children.values():
                self._runs.end(child, time.time())
            self._parent.end(finished=clean and self._finished)

    def _write(self, patient: bool, progress: Callable[[int], None] | None) -> None:
        if self._runs is None or self._parent is None:
            self._runs = Runs(self._start)
            self._parent = Parent(self._runs)
        self._show(self._runs, progress)
        if self._stale and (not patient or self._now() >= self._shown + _PARENT_EVERY):
            self._parent.show(self._busy.share(time.time()))
            self._shown = self._now()
            self._stale = False
        if self._finish is not None:
            self._parent.finish(self._finish)
            self._finish, self._finished = None, True

    def _show(self, runs: Runs, progress: Callable[[int], None] | None) -> None:
        """Bring the run of each trial up to date.

        Several at once on a server, which is waited for most of the time. All of them are over when this returns or
        raises: a run that is made after the runs were read back would be made twice.
        """
        broken: dict[int, Exception] = {}

        def show(number: int) -> bool | None:
            try:
                return None if broken else runs.show(self._known[number])
            except Exception as error:  # as in ``work``, which gets it from here
                broken[number] = error
                return None

        waiting, before = list(self._dirty), set(runs.children)
        each = writers().map if runs.served else map
        for number, changed in zip(waiting, each(show, waiting), strict=True):
            if changed is None:
                continue
            self._stale = self._stale or changed
            self.added += changed and number not in before
            self.complete += not changed
            del self._dirty[number]
            if self._known[number].trial.state.final:
                del self._known[number]  # it stands on the run now
            if progress is not None:
                progress(self.behind)
        for number, error in broken.items():
            # To the end: should it be this one trial that cannot be written, the others come before it next time.
            self._dirty[number] = self._dirty.pop(number)
            raise error

    def _fail(self, error: Exception) -> None:
        # What is known of the runs may be wrong now: a run may have been made although the answer was lost.
        self._runs = self._parent = None
        self._stale = True
        self._wait = min(max(_FIRST_WAIT, 2 * self._wait), _LAST_WAIT)
        self._next = self._now() + self._wait
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201  the mirror's log
        if not self._warned:
            self._warned = True
            self._say({"warning": unreachable(self._start, error)})


def unreachable(start: Start, error: Exception) -> str:
    """Return the one line that says that MLflow cannot be written."""
    return (
        f"MLflow at {redact(start.uri)} cannot be written ({brief(error)}): the search goes on; "
        f"`detol track sync {start.search}` catches up"
    )


def brief(error: Exception) -> str:
    """Return an error in one line of at most 160 characters, without passwords."""
    text = redact(" ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:157]}..."
