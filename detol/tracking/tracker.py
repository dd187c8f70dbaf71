"""The controller's end of the MLflow mirror."""

import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from detol.graph.ops import Value
from detol.search.records import Event, Objective, Reported, Trial
from detol.tracking.uri import check, redact
from detol.tracking.wire import Close, Epoch, Finish, Message, Seen, Start, send

Warn: TypeAlias = Callable[[str], None]

_log = logging.getLogger("detol.tracking")

_SILENCE = 180.0
"""Seconds without a word from the mirror after which ``close`` gives it up."""


class MlflowTracker:
    """Mirrors a search to MLflow: a parent run for the search, a child run for each trial.

    ``record`` puts the news into a queue without bounds (some microseconds); a thread sends them through a pipe to the
    mirror process, which alone imports MLflow. Recording a trial again adds nothing, so that a resumed search may
    record all of its trials first. No method raises because of MLflow, before or after ``close``.

    Args:
        uri: ``sqlite:///PATH/mlflow.db``, another database, or a server's address.
        search: its name; the parent run has it.
        settings: of the search, parameters of the parent run (space, strategy, data ...).
        recipe: parameters of every trial.
        objectives: in the order of the trials' scores.
        artifacts: directory of the artifacts if the experiment is new; by default beside a SQLite file, for a server
            where the server says.
        experiment: name of the MLflow experiment, made where there is none.
        identity: what tells searches of one name apart that share an MLflow store (an id from the results database).
        data: description of the data set (``Dataset.describe``), logged as an input of the parent run.
        workers: how many ranks can train at once, for the utilisation.
        warn: takes the one line of a failure; the log ``detol.tracking`` by default.
        log: file that the mirror's own output is appended to; none by default.

    Raises:
        UsageError: an address that MLflow cannot use.

    Attributes:
        added, complete, behind: known after ``close``: runs made, trials that were complete, trials not written.
    """

    def __init__(
        self,
        uri: str,
        search: str,
        settings: Mapping[str, Value] | None = None,
        *,
        recipe: Mapping[str, Value] | None = None,
        objectives: Sequence[Objective] = (),
        artifacts: Path | None = None,
        experiment: str = "detol",
        identity: str = "",
        data: Mapping[str, Any] | None = None,
        workers: int = 0,
        warn: Warn = _log.warning,
        log: Path | None = None,
    ) -> None:
        start = Start(
            uri=check(uri),
            search=search,
            identity=identity,
            experiment=experiment,
            artifacts=str(artifacts.absolute()) if artifacts else "",
            settings=dict(settings or {}),
            recipe=dict(recipe or {}),
            objectives=tuple(objectives),
            data=dict(data or {}),
            workers=workers,
        )
        self.uri = start.uri
        self.added = 0
        self.complete = 0
        self.behind = 0
        self._search = search
        self._warn = warn
        self._warned = False
        self._closed = False
        self._seen: set[int] = set()
        self._outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._lines: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._outbox.put(start)
        self._log = log
        self._begun = False
        self._process: subprocess.Popen[bytes] | None = None

    def _begin(self) -> None:
        """Start the mirror process with the first news: its imports would take a core from the workers' start."""
        if self._begun:
            return
        self._begun = True
        self._process = _spawn(self._log)
        if self._process is None:
            self._say("cannot be mirrored (the mirror process did not start)")
            return
        for target in (self._feed, self._hear):
            threading.Thread(target=target, args=(self._process,), name="detol-mlflow", daemon=True).start()

    def record(self, trial: Trial, event: Event | None) -> None:
        """Show the trial's new state; returns at once and never raises."""
        if self._closed:
            return
        self._begin()
        if isinstance(event, Reported) and trial.number in self._seen and not trial.state.final:
            score = trial.curve[-1] if trial.curve else float("nan")
            self._outbox.put(Epoch(trial.number, event.report, score, time.time()))
            return
        self._seen.add(trial.number)
        self._outbox.put(Seen(trial, time.time()))

    def finish(
        self,
        best: Trial | None,
        summary: Mapping[str, Any],
        export: Path | None = None,
        report: Path | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Show the end of the search on the parent run: best trial, summary, exported files, the model among them.

        Args:
            best: the winner, where there is one.
            summary: numbers become metrics ``summary.NAME``, text becomes tags.
            export: a directory that ``detol.export.export`` wrote; it must stay until ``close`` returns.
            report: a file that stands beside it in MLflow, under its own name; likewise.
            keep: whether one of that name that is there already stays.
        """
        if not self._closed:
            self._begin()
            exported, reported = (str(path.absolute()) if path else "" for path in (export, report))
            self._outbox.put(Finish(best, dict(summary), exported, reported, keep))

    def close(self) -> None:
        """Write what is left, then stop the mirror; idempotent.

        Returns when all is written, or MLflow cannot be reached, or the mirror has been silent for three minutes.
        """
        if self._closed:
            return
        self._begin()
        self._closed = True
        if self._process is None:
            return
        self._outbox.put(Close())
        try:
            while (line := self._lines.get(timeout=_SILENCE)) is not None:
                done = line.get("done", {})
                self.added = done.get("added", self.added)
                self.complete = done.get("complete", self.complete)
                self.behind = done.get("behind", line.get("left", self.behind))
        except queue.Empty:
            self._process.kill()
            self._say(f"did not answer for {_SILENCE:.0f} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)

    def _feed(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # the mirror is gone: ``_hear`` says so
            while True:
                message = self._outbox.get()
                send(process.stdin, message)  # type: ignore[arg-type]
                if isinstance(message, Close):
                    break
        with contextlib.suppress(OSError):
            process.stdin.close()

    def _hear(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        ended = False
        for text in process.stdout:
            line = json.loads(text)
            ended = ended or "done" in line or "warning" in line
            if "warning" in line:
                self._warned = True
                self._warn(line["warning"])
            elif "note" in line:
                _log.info(line["note"])
            self._lines.put(line)
        process.stdout.close()
        if not ended:
            self._say("is not mirrored any more (the mirror process died)")
        self._lines.put(None)

    def _say(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(
                f"MLflow at {redact(self.uri)} {what}: the search goes on; `detol track sync {self._search}` catches up"
            )


def _spawn(log: Path | None) -> "subprocess.Popen[bytes] | None":
    # -P: the current directory may hold a folder named as one of our modules. A session of its own: Ctrl-C in the
    # terminal is for the controller, the mirror still has to write what is left.
    command = [sys.executable, "-P", "-m", "detol.tracking.process", str(os.getpid())]
    try:
        with contextlib.ExitStack() as stack:
            errors: Any = subprocess.DEVNULL
            if log is not None:
                log.parent.mkdir(parents=True, exist_ok=True)
                errors = stack.enter_context(log.open("ab"))
            return subprocess.Popen(  # noqa: S603  our own module
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
    except OSError:
        return None
