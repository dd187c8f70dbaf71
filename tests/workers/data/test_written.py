"""Numbers in text; pandas reads the same text told which marks are used."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from detol.workers.data.columns import Column, encode, fit
from detol.workers.data.preprocessing import apply
from detol.workers.data.reading import read
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


def test_of_the_ways_to_write_numbers_the_one_counts_by_which_the_most_values_do() -> None:
    few = pd.DataFrame({"a": [*(f"{value / 8:.3f}" for value in range(1000)), "1,050", "2,000.5"]})
    (column,), notes = fit(few)
    assert encode([column], few)[-2:, 0].tolist() == [1050, 2000.5]
    assert (column.flag, notes) == (False, ["column 'a' read as numbers: commas group thousands"])
    slip = pd.DataFrame({"a": [*("1.234", "2.345", "1e3") * 100, "3,15"]})
    (column,), notes = fit(slip)
    assert column.flag  # 1.234 is no more than a thousand for the sake of one comma
    assert (encode([column], slip)[0, 0], notes) == (pytest.approx(1.234), [])


@pytest.mark.parametrize("text", [GERMAN, ["1,5", "22,25", "0,125"] * 9])
def test_a_number_that_is_none_of_text_is_what_it_is(text: list[str]) -> None:
    columns, _ = fit(pd.DataFrame({"a": text}))
    rows = pd.DataFrame({"a": pd.Series([1.234, "1,234", 7, None], dtype=object)})
    median = columns[0].median
    found = encode(columns, rows)[:, 0] + columns[0].offset
    assert found.tolist() == pytest.approx([1.234, 1.234, 7, median])


@pytest.mark.parametrize("where", ["column", "target"])
def test_columns_and_target_tell_each_other_what_a_comma_is(tmp_path: Path, where: str) -> None:
    unsure, clear = [f"{number},{100 + number}" for number in range(1, 61)], [f"{number},5" for number in range(60)]
    frame = pd.DataFrame({"a": unsure, "y": clear} if where == "target" else {"a": clear, "y": unsure})
    frame.to_csv(tmp_path / "t.csv", sep=";", index=False)
    found = read(str(tmp_path / "t.csv"), seed=1, validation=0.25)
    told = {"a": found.preprocessing["columns"][0]["median"], "y": found.target_mean}
    for name, text in (("a", frame["a"]), ("y", frame["y"])):
        numbers = text.str.replace(",", ".").astype(float)
        assert numbers.min() <= told[name] <= numbers.max()  # read by thousands it would be far beyond
    assert sum("commas are decimal" in note for note in found.about["notes"]) == 2
