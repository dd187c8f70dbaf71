"""Numbers in text; pandas reads the same text told which marks are used."""

import io

import numpy as np
import pandas as pd
import pytest

from detol.workers.data.columns import Column, encode, fit
from detol.workers.data.preprocessing import apply
from detol.workers.data.written import WRITINGS

ENGLISH = ["950", "1,050", "64,254.5", "-267", "1,234,567.89", "3.15"] * 5
GERMAN = ["950", "1.050", "64.254,5", "-267", "1.234.567,89", "3,15"] * 5


@pytest.mark.parametrize(
    ("text", "marks", "told"),
    [
        (ENGLISH, {"thousands": ","}, "commas group thousands"),
        (GERMAN, {"thousands": ".", "decimal": ","}, "dots group thousands, commas are decimal"),
        (["1,5", "22,25", "0,125"] * 9, {"decimal": ","}, "commas are decimal"),
        (["0,123", "1,234", "7,001"] * 9, {"decimal": ","}, "commas are decimal"),  # nothing is grouped after a zero
        (["1.234.567", "1.234"] * 9, {"thousands": ".", "decimal": ","}, "dots group thousands, commas are decimal"),
    ],
)
def test_the_marks_are_told_by_the_values(text: list[str], marks: dict[str, str], told: str) -> None:
    frame = pd.DataFrame({"a": text})
    (column,), notes = fit(frame)
    expected = pd.read_csv(io.StringIO("\n".join(["a", *text])), sep=";", **marks)["a"]  # type: ignore[call-overload]
    np.testing.assert_allclose(encode([column], frame)[:, 0] + column.offset, expected, rtol=1e-6)
    assert notes == [f"column 'a' read as numbers: {told}"]


def test_what_python_reads_is_left_as_it_is() -> None:
    frame = pd.DataFrame({"a": ["1.234", "2.5", "1e3"] * 9})
    columns, notes = fit(frame)
    assert encode(columns, frame)[:3, 0].tolist() == pytest.approx([1.234, 2.5, 1000])
    assert notes == []


def test_another_column_says_what_a_comma_is_where_both_would_do() -> None:
    alone = pd.DataFrame({"a": ["1,234", "5,678"] * 9})
    assert encode(fit(alone)[0], alone)[:2, 0].tolist() == [1234, 5678]
    beside = alone.assign(b=["3,15", "0,5"] * 9)
    assert encode(fit(beside)[0], beside)[:2, 0].tolist() == pytest.approx([1.234, 5.678])
    clear = pd.DataFrame({"a": ["1,234,567", "5,678"] * 9, "b": ["3,15", "0,5"] * 9})
    assert encode(fit(clear)[0], clear)[:2, 0].tolist() == [1234567, 5678]


def test_an_exported_record_reads_as_training_did_and_older_records_still_load() -> None:
    frame = pd.DataFrame({"a": ENGLISH})
    columns, _ = fit(frame)
    record = {
        "version": 1,
        "kind": "features",
        "raw_columns": ["a"],
        "columns": [column.to_json() for column in columns],
    }
    assert apply(record, [{"a": "2,050"}, {"a": 7}, {"a": "?"}]).ravel().tolist() == [2050, 7, 1000]  # the median
    older = {key: value for key, value in columns[0].to_json().items() if key != "grouped"}
    assert Column.from_json(older).grouped is False


def test_what_is_missing_is_in_no_writing_a_number() -> None:
    text = pd.Series([None, "x", "1,2,3"], dtype=object)
    for writing in WRITINGS:
        assert np.isnan(writing.read(text)).all()
    assert np.isnan(WRITINGS[1].read(pd.Series([None, None], dtype=object))).all()


def test_the_record_of_a_column_without_groups_is_as_it_always_was() -> None:
    """What data sets are called by depends on it: stored results must be found again."""
    (column,), _ = fit(pd.DataFrame({"a": [1.0, 2.0, 3.0]}))
    keys = ["name", "type", "median", "offset", "flag", "categories", "rare", "comma"]
    assert list(column.to_json()) == keys
