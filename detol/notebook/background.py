"""A search in a thread of its own, so that whoever started it can look at it, wait for it and end it."""

import contextvars
import threading
from collections.abc import Callable

from detol.result import SearchResult
from detol.search.controller import Controller
from detol.search.records import Objective
from detol.watch import Watcher

LOOK_SECONDS = 0.2
"""How often somebody who waits looks up, so that Ctrl-C is heard."""


class Background:
    """Runs one search in a thread; the thread owns the controller and all its parts, as the protocols ask.

    The search also ends, everything saved, when the interpreter does: the thread keeps a program alive for as long as
    its last turn takes, no longer.

    Args:
        work: runs the search under the watcher it is given, and returns its result.
        watcher: shows the search; called in the thread.
        done: called in the thread when all is over, with the result or with what went wrong.
    """

    def __init__(
        self,
        work: Callable[[Watcher], SearchResult],
        watcher: Watcher,
        done: Callable[[SearchResult | None, BaseException | None], None] = lambda *_: None,
    ) -> None:
        self._work, self._watcher, self._done = work, watcher, done
        self._stop, self._over = threading.Event(), threading.Event()
        self.result: SearchResult | None = None
        self.error: BaseException | None = None
        # In the context of the caller: a notebook knows by it to which cell an output belongs.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="detol-search")
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the search still runs."""
        return not self._over.is_set()

    def stop(self) -> None:
        """Ask the search to end at its next turn, everything saved; idempotent."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most so many seconds; return whether it has. Ctrl-C ends the waiting alone."""
        left = float("inf") if seconds is None else max(0.0, seconds)
        while not self._over.wait(min(left, LOOK_SECONDS)):
            left -= LOOK_SECONDS
            if left <= 0:
                return False
        self._thread.join()
        return True

    def _run(self) -> None:
        try:
            self.result = self._work(_Steered(self._watcher, self._stop))
        except BaseException as error:  # handed to whoever waits, Ctrl-C's exception too
            self.error = error
        finally:
            if threading.main_thread().is_alive():
                self._done(self.result, self.error)
            self._over.set()


class _Steered:
    """Shows a search as ``shown`` does, and interrupts it when it shall stop or the interpreter ends."""

    def __init__(self, shown: Watcher, stop: threading.Event) -> None:
        self._shown, self._stop = shown, stop

    def started(self, search: Controller, objective: Objective) -> None:
        self._shown.started(search, objective)

    def __call__(self, search: Controller) -> None:
        if self._stop.is_set() or not threading.main_thread().is_alive():
            search.interrupt()
        if threading.main_thread().is_alive():  # otherwise there is nobody left to show it to
            self._shown(search)

    def say(self, text: str) -> None:
        if threading.main_thread().is_alive():
            self._shown.say(text)

    def close(self) -> None:
        if threading.main_thread().is_alive():
            self._shown.close()
