"""Results as one JSON document, which people and other programs read without detol.

::

    {"format": "detol-results", "version": 1, "schema": "0002", "detol": "0.1.0", "exported": "2026-...",
     "data_sets": [...], "recipes": [...], "topologies": [{"key": ..., "digest": ..., "body": {...}}],
     "searches": [{"name": ..., ..., "steps": [...], "trials": [{"number": 0, ..., "parents": [], "reports": [...]}]}]}

A number that is not finite is ``{"$float": "nan"}``. The trials that a search was asked for are its ``budget`` here,
since ``trials`` are those that it made.
"""

import gzip
import io
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from detol.errors import ResultsError
from detol.results.exchange.bundle import STRUCTURED, Bundle, ListBundle, Row, check_header, typed
from detol.results.rules import whole


def write(bundle: Bundle, path: Path) -> None:
    """Write a bundle, one row a line; compressed when the name ends in ``.gz``."""
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else raw as out:
        file = io.TextIOWrapper(cast("IO[bytes]", out), encoding="utf-8")
        file.write(_text(dict(bundle.header))[:-1])
        for name, rows in (("data_sets", bundle.data_sets), ("recipes", bundle.recipes)):
            _list(file, name, [_text(_open(row)) for row in rows])
        _list(file, "topologies", (_text(_open(row)) for row in bundle.topologies()))
        _list(file, "searches", (_search(bundle, row) for row in bundle.searches))
        file.write("}\n")
        file.flush()
        file.detach()


def read(path: Path) -> ListBundle:
    """Read what :func:`write` wrote.

    Raises:
        ResultsError: not JSON (a truncated file, NaN), no export, a later version, or a row of another form.
    """
    where = str(path)
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        document = json.loads(data, parse_constant=_no_constant, parse_float=_real)
    except (ValueError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ResultsError(
            f"{where} is no JSON document ({reason}): it is damaged or cut off, export it again"
        ) from None
    header = check_header(document, where)
    lists = {name: _rows(header, name, where) for name in ("data_sets", "recipes", "topologies", "searches")}
    made = {
        name: [typed(_closed(_budget(row) if name == "searches" else row), name, where) for row in rows]
        for name, rows in lists.items()
    }
    of: dict[str, list[Row]] = {}
    for row, given in zip(made["searches"], lists["searches"], strict=True):
        place = f"{where}, search {row['name']!r}"
        row["steps"] = [typed(_closed(step), "steps", place) for step in _rows(given, "steps", place)]
        of[row["uid"]] = [_trial(trial, place) for trial in _rows(given, "trials", place)]
    facts = {key: value for key, value in header.items() if key not in lists}
    return ListBundle(where, facts, made["data_sets"], made["recipes"], made["searches"], made["topologies"], of)


def _budget(row: Any) -> Any:
    return {**row, "trials": row.get("budget")} if isinstance(row, Mapping) else row


def _trial(given: Any, where: str) -> Row:
    row = typed(_closed(given), "trials", where)
    place = f"{where}, trial {row['number']}"
    parents = given.get("parents", [])
    if not isinstance(parents, list) or not all(whole(number) for number in parents):
        raise ResultsError(f"{place}: parents is a list of numbers, got {parents!r}"[:300])
    row["parents"] = parents
    row["reports"] = [typed(_closed(report), "reports", place) for report in _rows(given, "reports", place)]
    return row


def _search(bundle: Bundle, row: Row) -> str:
    trials = [
        {**_open(trial), "reports": [_open(report) for report in trial["reports"]]}
        for trial in bundle.trials(row["uid"])
    ]
    shown = {("budget" if key == "trials" else key): value for key, value in _open(row).items()}
    head = _text({**shown, "steps": [_open(step) for step in row["steps"]]})
    lines = ",\n  ".join(_text(trial) for trial in trials)
    return f'{head[:-1]}, "trials": [\n  {lines}]}}'


def _list(file: IO[str], name: str, lines: Any) -> None:
    file.write(f',\n"{name}": [')
    for number, line in enumerate(lines):
        file.write(f"{',' if number else ''}\n {line}")
    file.write("]")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _open(row: Mapping[str, Any]) -> Row:
    """Return a row whose JSON columns are values instead of text."""
    return {key: json.loads(value) if key in STRUCTURED and value is not None else value for key, value in row.items()}


def _closed(row: Any) -> Any:
    """Invert :func:`_open`."""
    if not isinstance(row, Mapping):
        return row
    return {
        key: _compact(key, value) if key in STRUCTURED and value is not None else value for key, value in row.items()
    }


def _compact(key: str, value: Any) -> str:
    if key == "body":  # as detol.graph.codec writes it
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(value)


def _rows(holder: Any, name: str, where: str) -> list[Any]:
    found = holder.get(name, []) if isinstance(holder, Mapping) else None
    if not isinstance(found, list):
        raise ResultsError(f"{where}: {name} is a list, got {type(found).__name__}")
    return found


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is no number that a float holds")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
