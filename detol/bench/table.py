"""Tables of published results: a CSV file in which each topology of a space has a row."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.bench.keys import Rows, by_code, by_columns, by_key
from detol.errors import UsageError, unknown
from detol.execution.simulated import Answer
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Objective
from detol.spaces.decisions import Decisions

AS_TEXT: Mapping[str, Any] = {"dtype": str, "keep_default_na": False, "skipinitialspace": True}
"""How pandas reads a table: keys and decisions stay as they are written, ``000123`` is no number."""
MOST = 1e100
"""Size of the greatest figure: sums and squares of such are numbers still."""


@dataclass(frozen=True)
class Column:
    """One column of figures, as a person names it: ``NAME`` or ``NAME*FACTOR``."""

    name: str
    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Column":
        """Read ``NAME``, ``NAME*0.06`` or ``NAME*12/200``.

        Raises:
            UsageError: a factor that is no number > 0.
        """
        name, star, factor = text.partition("*")
        if not star:
            return cls(name)
        over, _, under = factor.partition("/")
        try:
            value = float(over) / float(under or 1)
        except (ValueError, ZeroDivisionError):
            value = 0.0
        if not 0 < value < float("inf"):
            raise UsageError(f"a column is NAME or NAME*FACTOR with a factor > 0 (0.06 or 12/200), got {text!r}")
        return cls(name, value)


class BenchTable:
    """The rows of a table by the decisions of a space; answers in place of training.

    Args:
        path: of the CSV file, compressed or not.
        space: what its rows are topologies of.
        objective: the column of scores and its direction.
        key: column that names the topology; empty: a column for each decision.
        code: what the key column holds of decisions; without it, options joined by ``|``, or a JSON object.
        tests: columns that are reported of the incumbent, in percent or whatever the table holds.
        cost: column of seconds of one training; each takes one second without it.

    Attributes:
        scores: float64 (rows,), more is better.
        tests: float64 (rows,) by column.
        seconds: float64 (rows,).

    Raises:
        UsageError: no such file or column, scores that are no numbers, duplicate rows, rows that do not fit the space,
            or topologies without a row.
    """

    def __init__(
        self,
        path: str | Path,
        space: SearchSpace,
        objective: Objective,
        *,
        key: str = "",
        code: Callable[[Decisions], str] | None = None,
        tests: Sequence[str] = (),
        cost: Column | None = None,
    ) -> None:
        frame = read_table(Path(path), key)
        self.path, self.space, self.objective = str(path), space, objective
        self.scores = objective.score(1.0) * figures(frame, objective.metric, "objective", path)
        self.tests: dict[str, NDArray[np.float64]] = {name: figures(frame, name, "test", path) for name in tests}
        if cost is None:
            self.seconds = np.ones(len(frame))
        else:
            self.seconds = cost.factor * figures(frame, cost.name, "cost", path)
            if (self.seconds < 0).any():
                raise UsageError(f"table {path}: column {cost.name!r} holds seconds >= 0, got {self.seconds.min():g}")
        if not key:
            self._rows: Rows = by_columns(frame, space, str(path))
        elif key not in frame.columns:
            raise unknown(f"key column of {path}", key, map(str, frame.columns))
        elif code is not None:
            self._rows = by_code(frame[key].tolist(), space, code, str(path), key)
        else:
            self._rows = by_key(frame[key].tolist(), space, str(path), key)
        self.best = int(np.argmax(self.scores))

    def __len__(self) -> int:
        """Return how many rows it has."""
        return len(self.scores)

    def row(self, candidate: Candidate) -> int:
        """Return the number of a candidate's row.

        Raises:
            UsageError: it has none.
        """
        return self.row_of(candidate.decisions)

    def row_of(self, decisions: Decisions) -> int:
        """Return the number of the row of complete decisions; errors as :meth:`row`."""
        return self._rows(decisions)

    def answer(self, candidate: Candidate) -> Answer:
        """Return what its training gave; errors as :meth:`row`."""
        row = self.row(candidate)
        value = self.objective.score(float(self.scores[row]))
        return Answer({self.objective.metric: value}, float(self.seconds[row]))


def read_table(path: Path, key: str = "") -> Any:
    """Return a table as a data frame of text.

    Raises:
        UsageError: no such file, no CSV, no rows, or a key (if its column is named) that stands in several rows.
    """
    import pandas as pd

    if not path.is_file():
        raise UsageError(f"table {path}: there is no such file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path, index_col=False, **AS_TEXT)
        header = pd.read_csv(path, header=None, nrows=1, **AS_TEXT).iloc[0]
    except pd.errors.ParserWarning:
        raise UsageError(f"table {path}: a row has more fields than the header has names: mend it") from None
    except Exception as error:  # what decompressors raise of a damaged file has no common base
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(f"table {path}: it cannot be read as CSV ({reason})") from None
    for other in (";", "\t", "|", " "):
        if len(header) == 1 and other in header[0]:
            raise UsageError(f"table {path}: its columns are separated by {other!r}: separate them by commas")
    if frame.empty:
        raise UsageError(f"table {path}: it has no rows")
    if header.duplicated().any():
        twice = header[header.duplicated()].iloc[0]
        raise UsageError(f"table {path}: column {twice!r} stands there twice: keep one of them")
    if key and key in frame.columns and frame[key].duplicated().any():
        twice = frame[key][frame[key].duplicated()].iloc[0]
        raise UsageError(f"table {path}: key {twice!r} stands in several rows: keep one of them")
    return frame


def figures(frame: Any, name: str, role: str, path: str | Path) -> NDArray[np.float64]:
    """Return a column of a table as float64 (rows,).

    Raises:
        UsageError: no such column, or a value that is no number of at most ``MOST`` in size.
    """
    if name not in frame.columns:
        raise unknown(f"{role} column of {path}", name, map(str, frame.columns))
    import pandas as pd

    values = np.asarray(pd.to_numeric(frame[name], errors="coerce"), np.float64)
    bad = ~(np.abs(values) <= MOST)
    if bad.any():
        place = int(np.argmax(bad))
        within = f" of at most {MOST:g} in size" if not np.isnan(values[place]) else ""
        raise UsageError(
            f"table {path}, row {place + 1}: column {name!r} holds numbers{within}, got {frame[name].iloc[place]!r}"
        )
    return values
