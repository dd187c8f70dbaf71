"""Every exception that detol raises on purpose.

::

    DetolError
    +-- UsageError            a person's input breaks a rule: exit code 2, one line
    |   +-- DataError         ... in a data set
    |   +-- SpaceError        ... in a search space or a user's space file
    |   +-- ResultsError      ... in the results database (schema, URL, unknown name)
    +-- TopologyError         a graph is not a valid topology
    |   +-- ShapeError        ... for this input shape
    +-- TrialError            a trial ended badly; becomes a state, never ends the search
        +-- Diverged          a loss or score is not finite
        +-- OutOfMemory       host or device memory ran out
        +-- TimedOut          the trial ran past its limit
        +-- WorkerLost        the process that trained it died

A message states the rule, the value that breaks it and the remedy, in one line.
"""

import difflib
from collections.abc import Iterable


class DetolError(Exception):
    """Base of all exceptions that detol raises on purpose."""


class UsageError(DetolError):
    """Input by a person that breaks a rule; the command line prints the one line and exits with 2."""


class DataError(UsageError):
    """A data set that cannot be read or used as asked."""


class SpaceError(UsageError):
    """A search space that cannot be found, loaded or used."""


class ResultsError(UsageError):
    """A results database that cannot be opened, or does not hold what was asked for."""


class TopologyError(DetolError):
    """A graph that is not a valid topology."""


class ShapeError(TopologyError):
    """A topology that does not fit the shape of its input; names the node, the shape and the rule."""


class CheckpointError(DetolError):
    """Weights or a checkpoint that cannot be read, or that belong to another network."""


class TrialError(DetolError):
    """A trial that ended badly; the controller records it as a state with this reason."""


class Diverged(TrialError):  # noqa: N818  the name of the state it becomes
    """A loss or score became NaN or infinite."""


class OutOfMemory(TrialError):  # noqa: N818
    """Host or device memory ran out."""


class TimedOut(TrialError):  # noqa: N818
    """A trial ran past its time limit."""


class WorkerLost(TrialError):  # noqa: N818
    """The worker process died or stopped answering: the machine's fault, so the trial may be tried again."""


def unknown(kind: str, name: str, known: Iterable[str], error: type[UsageError] = UsageError) -> UsageError:
    """Build the error for a name that is not among ``known``, with near names as the remedy."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    remedy = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
    return error(f"unknown {kind} {name!r}: {remedy}")
