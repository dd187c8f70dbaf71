"""How an exception becomes the state and the reason of a trial: the one place for every executor. Imports no torch."""

import re
from collections.abc import Iterable

from detol.errors import Diverged, OutOfMemory, TimedOut, WorkerLost
from detol.search.records import State

_MEMORY_TYPES = frozenset({"OutOfMemoryError", "MemoryError"})
_MEMORY_WORDS = ("std::bad_alloc", "out of memory", "can't allocate memory", "cannot allocate memory")
_STATES: tuple[tuple[type[Exception], State], ...] = (
    (Diverged, State.DIVERGED),
    (OutOfMemory, State.OUT_OF_MEMORY),
    (TimedOut, State.TIMED_OUT),
    (WorkerLost, State.LOST),
)
LONGEST_REASON = 300


def exhausted(error: BaseException) -> bool:
    """Return whether an error says that host or device memory ran out.

    True for ``MemoryError``, ``torch.OutOfMemoryError``, :class:`~detol.errors.OutOfMemory`, and the runtime errors
    that torch's CPU allocator and the C++ library raise (``std::bad_alloc``).
    """
    if isinstance(error, OutOfMemory) or any(kind.__name__ in _MEMORY_TYPES for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError | OSError) and any(word in str(error).lower() for word in _MEMORY_WORDS)


def outcome(error: BaseException) -> tuple[State, str]:
    """Return the state and the one-line reason (``type: message``) of a trial that ended with ``error``.

    The trial errors of detol keep their message alone, since the state says their type.
    """
    for kind, state in _STATES:
        if isinstance(error, kind):
            return state, one_line(str(error))
    reason = one_line(f"{type(error).__name__}: {error}")
    return (State.OUT_OF_MEMORY if exhausted(error) else State.FAILED), reason


def one_line(text: str) -> str:
    """Return text without line breaks, at most ``LONGEST_REASON`` characters."""
    flat = " ".join(text.split()).rstrip(": ")
    return flat if len(flat) <= LONGEST_REASON else f"{flat[: LONGEST_REASON - 3]}..."


def cause(error: BaseException) -> str:
    """Return why a worker could not be made: of a traceback that Ray sends along the last line, which names it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines and getattr(error, "actor_init_failed", False) else text


_SEVERITY = (
    State.OUT_OF_MEMORY,
    State.FAILED,
    State.DIVERGED,
    State.TIMED_OUT,
    State.LOST,
    State.STOPPED,
    State.PAUSED,
    State.COMPLETED,
)


def decisive(states: Iterable[State]) -> State:
    """Return the state that says what happened to a job whose ranks ended in ``states``.

    A rank that runs out of memory or raises leaves the others without a peer (LOST): the cause wins over its effect.
    """
    return min(states, key=_SEVERITY.index)
