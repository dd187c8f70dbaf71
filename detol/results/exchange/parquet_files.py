"""Results as Parquet: one file with a row for each trial, or a folder with a file for each table.

The one file is for data frames: a row holds the trial, its topology, its parents and its reports (lists), and names of
search, data set and space; the rest is JSON in the file's metadata. The folder is for SQL engines and for large
databases; ``manifest.json`` holds the number of rows and the hash of each of its files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from detol.errors import ResultsError
from detol.results.exchange.bundle import COLUMNS, MANIFEST, Bundle, Row, check_header, typed

_KEY = b"detol"
_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64()}
_SHOWN = ("search_name", "data_name", "space", "objective")
_OPTIONS = {"compression": "zstd"}


def _schema(table: str, *, keys: Mapping[str, pa.DataType] | None = None) -> pa.Schema:
    own = [pa.field(column.name, _KINDS[column.type.python_type]) for column in COLUMNS[table]]
    return pa.schema([*(pa.field(name, kind) for name, kind in (keys or {}).items()), *own])


_OF = {"search": pa.string()}
_OF_TRIAL = {**_OF, "number": pa.int64()}
TABLES: Mapping[str, pa.Schema] = {
    "data_sets": _schema("data_sets"),
    "recipes": _schema("recipes"),
    "topologies": _schema("topologies"),
    "searches": _schema("searches"),
    "steps": _schema("steps", keys=_OF_TRIAL),
    "trials": _schema("trials", keys=_OF),
    "parents": pa.schema([*(pa.field(n, k) for n, k in _OF_TRIAL.items()), pa.field("parent", pa.int64())]),
    "reports": _schema("reports", keys=_OF_TRIAL),
}
"""The files of a folder; ``search`` is the uid of a search."""

_REPORTS = pa.list_(pa.struct(list(_schema("reports"))))
ONE = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("search", *_SHOWN)),
        *_schema("trials"),
        pa.field("body", pa.string()),
        pa.field("parents", pa.list_(pa.int64())),
        pa.field("reports", _REPORTS),
    ]
)
"""The one file."""


def write_file(bundle: Bundle, path: Path) -> None:
    """Write a bundle as one file."""
    head = {**bundle.header, "data_sets": bundle.data_sets, "recipes": bundle.recipes, "searches": bundle.searches}
    names = {row["digest"]: row["name"] for row in bundle.data_sets}
    bodies = {row["key"]: row["body"] for row in bundle.topologies()}
    with pq.ParquetWriter(path, ONE.with_metadata({_KEY: json.dumps(head).encode()}), **_OPTIONS) as writer:
        for search in bundle.searches:
            shown = {"search": search["uid"], "search_name": search["name"], "data_name": names[search["data"]]}
            shown |= {"space": search["space"], "objective": search["objective"]}
            rows = [{**row, **shown, "body": bodies[row["topology"]]} for row in bundle.trials(search["uid"])]
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema=ONE).replace_schema_metadata(None))


def write_folder(bundle: Bundle, path: Path) -> None:
    """Write a bundle as the files of a folder, which exists."""
    counts = {}
    for name in ("data_sets", "recipes", "searches"):
        counts[name] = _whole(path, name, getattr(bundle, name))
    counts["topologies"] = _whole(path, "topologies", list(bundle.topologies()))
    parts = ("steps", "trials", "parents", "reports")
    writers = {name: pq.ParquetWriter(path / f"{name}.parquet", TABLES[name], **_OPTIONS) for name in parts}
    counts.update(dict.fromkeys(parts, 0))
    try:
        for search in bundle.searches:
            for name, rows in _flat(search, bundle.trials(search["uid"])).items():
                writers[name].write_table(pa.Table.from_pylist(rows, schema=TABLES[name]))
                counts[name] += len(rows)
    finally:
        for writer in writers.values():
            writer.close()
    files = {f"{name}.parquet": {"rows": counts[name], "sha256": _hash(path / f"{name}.parquet")} for name in TABLES}
    (path / MANIFEST).write_text(json.dumps({**bundle.header, "files": files}, indent=1) + "\n", encoding="utf-8")


def _whole(path: Path, name: str, rows: Sequence[Row]) -> int:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=TABLES[name]), path / f"{name}.parquet", **_OPTIONS)
    return len(rows)


def _flat(search: Row, trials: Sequence[Row]) -> dict[str, list[Row]]:
    of = {"search": search["uid"]}
    return {
        "steps": [{**of, "number": number, **step} for number, step in enumerate(search["steps"])],
        "trials": [{**of, **trial} for trial in trials],
        "parents": [{**of, "number": t["number"], "parent": parent} for t in trials for parent in t["parents"]],
        "reports": [{**of, "number": t["number"], **report} for t in trials for report in t["reports"]],
    }


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Groups:
    """The rows of a table by the search they are of, made when they are asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        keys = table.column("search").to_numpy(zero_copy_only=False)
        order = np.argsort(keys, kind="stable") if len(keys) else np.zeros(0, np.int64)
        names, starts = np.unique(keys[order], return_index=True) if len(keys) else ((), ())
        ends = [*starts[1:], len(keys)] if len(keys) else []
        self._places = {str(name): order[a:b] for name, a, b in zip(names, starts, ends, strict=True)}

    def rows(self, search: str) -> list[Row]:
        places = self._places.get(search)
        return [] if places is None else self._table.take(pa.array(places)).to_pylist()


class FolderBundle:
    """A folder of Parquet files that :func:`write_folder` wrote.

    Raises:
        ResultsError: no such folder, a file that is missing, truncated or not the one that was written.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        try:
            text = (path / MANIFEST).read_text(encoding="utf-8")
            manifest = json.loads(text)
        except (OSError, ValueError):
            raise ResultsError(
                f"{path} is no export of results: a folder of one holds {MANIFEST}, one file ends in .parquet or .json"
            ) from None
        self.header = check_header(manifest, str(path))
        files = self.header.get("files")
        self._tables: dict[str, pa.Table] = {}
        for name in TABLES:
            said = files.get(f"{name}.parquet") if isinstance(files, Mapping) else None
            self._tables[name] = self._read(path / f"{name}.parquet", name, said if isinstance(said, Mapping) else {})
        self.data_sets, self.recipes = self._small("data_sets"), self._small("recipes")
        self.searches = self._small("searches")
        steps = _Groups(self._tables["steps"])
        for row in self.searches:
            listed = sorted(steps.rows(row["uid"]), key=lambda step: step["number"])
            row["steps"] = [typed(step, "steps", self.where) for step in listed]

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies."""
        for batch in self._tables["topologies"].to_batches(1000):
            yield from (typed(row, "topologies", self.where) for row in batch.to_pylist())

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search."""
        lines: dict[int, list[int]] = {}
        for line in self._groups["parents"].rows(uid):
            lines.setdefault(line["number"], []).append(line["parent"])
        curves: dict[int, list[Row]] = {}
        for row in self._groups["reports"].rows(uid):
            curves.setdefault(row["number"], []).append(typed(row, "reports", self.where))
        return [
            {
                **typed(row, "trials", self.where),
                "parents": lines.get(row["number"], []),
                "reports": curves.get(row["number"], []),
            }
            for row in self._groups["trials"].rows(uid)
        ]

    @cached_property
    def _groups(self) -> dict[str, _Groups]:
        return {name: _Groups(self._tables[name]) for name in ("trials", "parents", "reports")}

    def _small(self, name: str) -> list[Row]:
        return [typed(row, name, self.where) for row in self._tables[name].to_pylist()]

    def _read(self, path: Path, name: str, said: Mapping[str, Any]) -> pa.Table:
        if not path.is_file():
            raise ResultsError(f"{self.where} lacks {path.name}: it is damaged, export it again")
        if _hash(path) != said.get("sha256"):
            raise ResultsError(f"{path} is not the file that was exported: it is damaged or changed, export it again")
        return _columns(_table(path), TABLES[name], str(path))


class FileBundle:
    """A Parquet file that :func:`write_file` wrote.

    Raises:
        ResultsError: truncated, not Parquet, or no export of results.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        table = _table(path)
        try:
            head = json.loads((table.schema.metadata or {}).get(_KEY, b"null"))
        except ValueError:
            head = None
        self.header = check_header(head, self.where)
        self._table = _columns(table, ONE, self.where)
        self.data_sets, self.recipes = self._rows("data_sets"), self._rows("recipes")
        self.searches = [
            {**row, "steps": self._steps(given)}
            for row, given in zip(self._rows("searches"), self.header["searches"], strict=True)
        ]

    def topologies(self) -> Iterator[Row]:
        """Yield the topologies, each once."""
        seen: set[str] = set()
        for batch in self._table.select(["topology", "digest", "body"]).to_batches(1000):
            for row in batch.to_pylist():
                if row["topology"] not in seen:
                    seen.add(row["topology"])
                    yield typed({**row, "key": row["topology"]}, "topologies", self.where)

    def trials(self, uid: str) -> list[Row]:
        """Return the trials of a search."""
        return [
            {
                **typed(row, "trials", self.where),
                "parents": row["parents"] or [],
                "reports": [typed(report, "reports", self.where) for report in row["reports"] or []],
            }
            for row in self._groups.rows(uid)
        ]

    @cached_property
    def _groups(self) -> _Groups:
        return _Groups(self._table)

    def _steps(self, search: Mapping[str, Any]) -> list[Row]:
        given = search.get("steps", [])
        if not isinstance(given, list):
            raise ResultsError(f"{self.where}: steps is a list, got {type(given).__name__}")
        return [typed(step, "steps", self.where) for step in given]

    def _rows(self, name: str) -> list[Row]:
        given = self.header.get(name)
        if not isinstance(given, list):
            raise ResultsError(f"{self.where}: its metadata lacks {name}: it is damaged, export it again")
        return [typed(row, name, self.where) for row in given]


def _table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ResultsError(
            f"{path} is no whole Parquet file ({reason[:150]}): it is damaged or cut off, export it again"
        ) from None


def _columns(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    for name in schema.names:
        if table.schema.names.count(name) != 1:
            raise ResultsError(f"{where} has no column {name!r}: it is no export of results, or a damaged one")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ResultsError(f"{where}: a column is of another type than was exported ({reason[:150]})") from None
