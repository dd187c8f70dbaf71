"""The mirror process: ``python -m detol.tracking.process PID`` reads messages on standard input and writes to MLflow.

A process of its own, because logging a run keeps a processor busy for some 20 to 80 ms, which the controller does not
have. ``PID`` is the controller's; when that is gone, or its end of the pipe, what came is written and the mirror ends.

On standard output it says, one JSON object a line: ``{"warning": text}`` when MLflow cannot be reached (once),
``{"note": text}`` when it is back, ``{"left": n}`` once a second while it works on what is left after the last
message, and ``{"done": {"added": n, "complete": n, "behind": n}}`` at the end.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeAlias

from detol.tracking.mirror import Mirror, brief
from detol.tracking.place import writer_lock
from detol.tracking.wire import Close, Message, Start, receive

Say: TypeAlias = Callable[[Mapping[str, Any]], None]
Inbox: TypeAlias = "queue.SimpleQueue[Message | None]"

_TICK = 1.0

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""Set for this process alone. Tries are ours (detol.tracking.mirror); MLflow's own would block for minutes."""


def serve(pipe: BinaryIO, say: Say, alive: Callable[[], bool]) -> None:
    """Mirror until the controller closes or is gone, then write what is left.

    Args:
        pipe: where the messages come from.
        say: takes one line for the controller.
        alive: whether the controller's process is still there (a child of it may keep the pipe open).
    """
    inbox: Inbox = queue.SimpleQueue()
    threading.Thread(target=_read, args=(pipe, inbox), daemon=True).start()
    start = inbox.get()
    if not isinstance(start, Start):
        return
    # Waits for the mirror of a controller that was killed: two would make two runs of one trial.
    lock = writer_lock(start)
    try:
        lock.acquire()
    except (TimeoutError, OSError) as error:
        say({"warning": f"search {start.search} has another mirror at work ({brief(error)}): not mirrored here"})
        return
    with lock:
        mirror = Mirror(start, say, time.monotonic)
        clean = _listen(mirror, inbox, alive)
        _drain(mirror, say)
        mirror.end(clean=clean)
    say({"done": {"added": mirror.added, "complete": mirror.complete, "behind": mirror.behind}})


def _listen(mirror: Mirror, inbox: Inbox, alive: Callable[[], bool]) -> bool:
    """Take messages and work until nothing follows; return whether the controller said so."""
    while True:
        mirror.work()
        with contextlib.suppress(queue.Empty):
            message = inbox.get(timeout=_TICK)
            while True:
                if message is None or isinstance(message, Close):
                    return message is not None
                mirror.take(message)
                message = inbox.get_nowait()
        if not alive():
            return False


def _drain(mirror: Mirror, say: Say) -> None:
    told = time.monotonic()

    def progress(left: int) -> None:
        nonlocal told
        if time.monotonic() >= told + _TICK:
            told = time.monotonic()
            say({"left": left})

    # The first try may meet a server that went and came back, or a trial that cannot be written before those that can.
    tries = 2
    while tries:
        before = mirror.behind
        if mirror.work(patient=False, progress=progress):
            return
        tries = 2 if mirror.behind < before else tries - 1


def _read(pipe: BinaryIO, inbox: Inbox) -> None:
    message: Message | None = None
    with contextlib.suppress(Exception):  # whatever breaks here ends the mirror as the end of the pipe does
        while (message := receive(pipe)) is not None:
            inbox.put(message)
    inbox.put(None)


def main(controller: int) -> None:
    """Run the process; ``controller`` is the parent's process id."""
    os.environ.update(ENVIRONMENT)
    # Ctrl-C is for the controller, which says when to end. Standard output is for our lines alone: MLflow prints.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    if hasattr(os, "nice"):
        os.nice(5)  # training comes first

    def say(line: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody listens any more
            out.write(json.dumps(line) + "\n")
            out.flush()

    serve(sys.stdin.buffer, say, lambda: os.getppid() == controller)


if __name__ == "__main__":
    main(int(sys.argv[1]))
