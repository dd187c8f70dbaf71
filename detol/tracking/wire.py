"""What the controller tells the mirror process, and how it crosses the pipe.

A frame is four bytes of length (big endian) and a pickle. Both ends are the same program on the same machine, and the
pipe is private to them, so a pickle is as safe as the code itself; the length tells a cut frame from a whole one.
"""

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeAlias

from detol.graph.ops import Value
from detol.search.records import Objective, Report, Trial

_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Start:
    """Opens the mirror of a search.

    Args:
        uri: of MLflow, as ``detol.tracking.uri.check`` returns it.
        search: name of the search; the parent run carries it.
        identity: tells searches of one name on one server apart.
        experiment: name of the MLflow experiment, made where there is none.
        artifacts: directory of the artifacts of a new experiment; empty: beside a SQLite file, else the server decides.
        settings: of the search, parameters of the parent.
        recipe: parameters of every trial.
        objectives: in the order of a trial's scores.
        data: description of the data set (``Dataset.describe``); empty: it is not logged.
        workers: how many ranks can train at once; 0 when nobody knows.
    """

    uri: str
    search: str
    identity: str
    experiment: str = "detol"
    artifacts: str = ""
    settings: Mapping[str, Value] = field(default_factory=dict)
    recipe: Mapping[str, Value] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial's whole state at a moment (seconds since 1970)."""

    trial: Trial
    at: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One more report of a trial that was seen before; ``score`` is the primary one, more is better."""

    number: int
    report: Report
    score: float
    at: float


@dataclass(frozen=True, slots=True)
class Finish:
    """The search is over: its best trial, its summary, the directory of its export and its report (empty: none).

    ``keep``: a report that is there already stays.
    """

    best: Trial | None
    summary: Mapping[str, Any]
    export: str = ""
    report: str = ""
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing follows: write what is left and end."""


Message: TypeAlias = Start | Seen | Epoch | Finish | Close


def send(pipe: BinaryIO, message: Message) -> None:
    """Write one frame.

    Raises:
        OSError: the other end is gone.
    """
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(body)) + body)
    pipe.flush()


def receive(pipe: BinaryIO) -> Message | None:
    """Read one frame; ``None`` at the end of the pipe, also when it ends within a frame (the writer was killed)."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = pipe.read(length)
    if len(body) < length:
        return None
    message: Message = pickle.loads(body)  # noqa: S301  our own pipe, see above
    return message
