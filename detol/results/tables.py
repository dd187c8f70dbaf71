"""Rows of results as CSV and as JSON."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Return a row, or anything in it, as strict JSON holds it: mappings, lists, text, numbers; non-finite is null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def to_json(value: Any) -> str:
    """Return one strict JSON document."""
    return json.dumps(plain(value), allow_nan=False)


def to_csv(rows: Iterable[Any]) -> str:
    """Return rows (dataclasses or mappings, all alike) as CSV with a header; nested values are JSON in their cell.

    A number that is not finite is an empty cell, as a missing one. No rows: no header either.
    """
    listed = [plain(row) for row in rows]
    if not listed:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(listed[0]), lineterminator="\n")
    writer.writeheader()
    for row in listed:
        writer.writerow({key: json.dumps(v) if isinstance(v, dict | list) else v for key, v in row.items()})
    return out.getvalue()
