"""Rows as CSV and JSON that other programs read."""

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from detol.results.tables import plain, to_csv, to_json


@dataclass(frozen=True)
class Row:
    name: str
    value: float | None
    nested: dict[str, float]


def test_rows() -> None:
    rows = [Row('a,"b"\n', math.nan, {"x": math.inf}), Row("c", 0.5, {})]
    assert json.loads(to_json(rows)) == [
        {"name": 'a,"b"\n', "value": None, "nested": {"x": None}},
        {"name": "c", "value": 0.5, "nested": {}},
    ]
    assert list(csv.reader(io.StringIO(to_csv(rows)))) == [
        ["name", "value", "nested"],
        ['a,"b"\n', "", '{"x": null}'],
        ["c", "0.5", "{}"],
    ]
    assert to_csv([]) == ""
    assert plain((PurePosixPath("a/b"), {1: {2.5}})) == ["a/b", {"1": [2.5]}]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "a": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00")),
                "b": st.floats(allow_nan=False),
            }
        )
    )
)
def test_csv_reads_back(rows: list[dict[str, object]]) -> None:
    found = list(csv.DictReader(io.StringIO(to_csv(rows), newline="")))
    assert [row["a"] for row in found] == [row["a"] for row in rows]
    assert [float(f["b"]) for f, row in zip(found, rows, strict=True) if f["b"]] == [
        row["b"] for row in rows if math.isfinite(float(str(row["b"])))
    ]
