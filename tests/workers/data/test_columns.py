import numpy as np
import pandas as pd
import pytest

from detol.errors import DataError
from detol.workers.data.columns import Column, absent, encode, fit, plain, strange


def test_categories_as_pandas_gives_dummies() -> None:
    frame = pd.DataFrame({"colour": list("rgbrgbrgrr"), "size": np.arange(10.0), "ok": [True, False] * 5})
    columns, notes = fit(frame)
    # pandas.get_dummies puts numbers and truth values first; ours stand where the column stood
    expected = pd.get_dummies(frame, columns=["colour"], prefix_sep="=", dtype=float)
    names = [name for column in columns for name in column.names]
    assert names == ["colour=b", "colour=g", "colour=r", "size", "ok"]
    np.testing.assert_array_equal(encode(columns, frame), expected[names].to_numpy(dtype=np.float32))
    assert plain(columns).tolist() == [False, False, False, True, True]
    assert notes == []


def test_missing_numbers_get_the_training_median_and_a_flag() -> None:
    train = pd.DataFrame({"a": ["1", "?", " 3", "NA", "8", ""]})
    columns, _ = fit(train)
    assert columns[0].median == 3
    np.testing.assert_array_equal(encode(columns, train), [[1, 0], [3, 1], [3, 0], [3, 1], [8, 0], [3, 1]])
    # the median of training stands in elsewhere too, whatever stands there
    np.testing.assert_array_equal(
        encode(columns, pd.DataFrame({"a": ["100", "what", None]})), [[100, 0], [3, 1], [3, 1]]
    )


def test_numbers_that_only_others_lack_get_no_flag() -> None:
    columns, _ = fit(pd.DataFrame({"a": [1.0, 2.0, 9.0]}))
    np.testing.assert_array_equal(encode(columns, pd.DataFrame({"a": [np.nan, 5]})), [[2], [5]])


def test_missing_is_a_category_and_the_unseen_is_all_zeros() -> None:
    train = pd.DataFrame({"a": ["x", "x", "y", "y", "?", "?"]})
    columns, _ = fit(train)
    assert columns[0].names == ("a=x", "a=y", "a=(missing)")
    other = pd.DataFrame({"a": ["y", "z", None, " x "]})
    np.testing.assert_array_equal(encode(columns, other), [[0, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]])


def test_rare_categories_share_a_column() -> None:
    values = ["often"] * 980 + ["less"] * 12 + ["few"] * 7 + ["once"]
    columns, _ = fit(pd.DataFrame({"a": values}))
    assert columns[0].categories == ("less", "often")
    assert columns[0].rare == ("few", "once")
    encoded = encode(columns, pd.DataFrame({"a": ["few", "once", "often", "never"]}))
    np.testing.assert_array_equal(encoded, [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]])


def test_at_most_64_categories() -> None:
    values = [f"v{n:03}" for n in range(70) for _ in range(20 + (n < 64))]
    columns, _ = fit(pd.DataFrame({"a": values}))
    assert columns[0].categories == tuple(f"v{n:03}" for n in range(64))
    assert columns[0].rare == tuple(f"v{n:03}" for n in range(64, 70))


def test_columns_that_say_nothing_are_left_out() -> None:
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(50)], "void": [None] * 50, "a": range(50)})
    columns, notes = fit(frame)
    assert [column.name for column in columns] == ["a"]
    assert len(notes) == 2
    with pytest.raises(DataError, match="needs a column besides the target"):
        fit(frame[["void"]])


def test_large_offsets_keep_their_differences() -> None:
    seconds = 1.7e9 + np.arange(100.0)  # float32 alone resolves 128 s here
    columns, _ = fit(pd.DataFrame({"t": seconds}))
    np.testing.assert_allclose(np.diff(encode(columns, pd.DataFrame({"t": seconds}))[:, 0]), 1)


def test_moments_in_time_are_seconds() -> None:
    times = pd.Series(pd.to_datetime(["2026-01-01", "2026-01-02", None, "2026-01-04"]))
    columns, _ = fit(pd.DataFrame({"t": times}))
    encoded = encode(columns, pd.DataFrame({"t": times}))
    assert encoded[:, 1].tolist() == [0, 0, 1, 0]
    assert encoded[1, 0] - encoded[0, 0] == 86400


def test_decimal_commas() -> None:
    frame = pd.DataFrame({"a": ["1,5", "2,25", "-3"]})
    columns, _ = fit(frame)
    assert columns[0].comma
    assert encode(columns, frame)[:, 0].tolist() == [1.5, 2.25, -3]


@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e300"])
def test_infinite_numbers(value: str) -> None:
    with pytest.raises(DataError, match="column 'a' is not in row 1 "):
        fit(pd.DataFrame({"a": ["1", value]}))


def test_a_column_that_is_not_there() -> None:
    columns, _ = fit(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    with pytest.raises(DataError, match="needs the column 'b'; got a, c"):
        encode(columns, pd.DataFrame({"a": [1], "c": [2]}))


@pytest.mark.parametrize("dtype", ["category", "string", "object"])
def test_types_of_text(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.Series(["x", "y", None, "x", "y"], dtype=dtype)})
    assert absent(frame["a"]).tolist() == [False, False, True, False, False]
    assert fit(frame)[0] == (Column("a", "category", flag=True, categories=("x", "y")),)


@pytest.mark.parametrize("dtype", ["Int64", "float32", "boolean"])
def test_types_of_numbers(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.Series([1, 0, 1], dtype=dtype)})
    assert encode(fit(frame)[0], frame)[:, 0].tolist() == [1, 0, 1]


def test_a_slip_in_a_column_of_numbers_counts_as_missing() -> None:
    slip = pd.DataFrame({"a": [*map(str, range(150)), "15O", *map(str, range(150))]})  # the letter O
    columns, notes = fit(slip)
    assert (columns[0].type, columns[0].flag, notes) == ("number", True, [])
    assert encode(columns, slip)[150].tolist() == [columns[0].median, 1]
    assert strange(columns[0], slip["a"]) == 1


def test_a_column_of_numbers_and_words_is_told() -> None:
    frame = pd.DataFrame({"a": ["1", "2", "many"] * 4 + ["1", "2"] * 40})
    columns, notes = fit(frame)
    assert columns[0].categories == ("1", "2", "many")
    assert notes == ["column 'a' taken as categories (mostly numbers, but it holds 'many')"]


def test_a_column_of_numbers_may_begin_with_what_is_none():
    """A table may be sorted: 60 of 10,000 values are fewer than one in a hundred, wherever they stand."""
    column = pd.DataFrame({"a": ["unknown"] * 60 + [str(value) for value in range(9_940)]})
    (found,), notes = fit(column)
    assert (found.type, found.median, notes) == ("number", 4969.5, [])
    assert strange(found, column["a"]) == 60
