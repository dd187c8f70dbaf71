import re
from typing import Any

import numpy as np
import pytest

from detol.errors import DataError
from detol.workers.data.labels import encode, missing


def of(values: Any, task: str = "auto", **others: Any) -> Any:
    names = others.pop("names", None)
    parts = {"train": np.asarray(values)} | {part: np.asarray(more) for part, more in others.items()}
    return encode(parts, task, names, "y")


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"] * 5, "classification"),
        ([True, False] * 5, "classification"),
        ([0, 1] * 5, "classification"),
        ([-1, 1] * 5, "classification"),
        ([3, 4, 5, 9] * 5, "classification"),  # few whole numbers
        ([1.0, 2.0] * 5, "classification"),
        (list(range(100)) * 2, "classification"),  # CIFAR-100: no gap from 0
        (list(range(17, 91)) * 10, "regression"),  # ages
        (list(range(20)), "regression"),  # each once
        ([0.5, 1.0, 2.0] * 9, "regression"),
    ],
)
def test_the_task_is_told_by_the_labels(values: list[Any], task: str) -> None:
    assert of(values).task == task


def test_classes_are_in_numeric_order_where_they_are_numbers() -> None:
    labels = of(np.array(["10", "9", "2"] * 4, dtype=object))
    assert labels.classes == ("2", "9", "10")
    assert labels.y["train"][:3].tolist() == [2, 1, 0]
    assert labels.y["train"].dtype == np.int64


def test_one_hot_and_column_labels() -> None:
    assert of(np.eye(3)[[2, 0, 1, 0] * 3]).y["train"][:4].tolist() == [2, 0, 1, 0]
    assert of(np.array([[4], [7]] * 5)).classes == ("4", "7")
    with pytest.raises(DataError, match=r"one-hot.*\(4, 2\)"):
        of(np.full((4, 2), 0.5))


def test_names_are_those_of_the_indices() -> None:
    assert of([0, 2] * 5, names=("cat", "dog", "owl")).classes == ("cat", "owl")
    assert of(["a", "b"] * 5, names=("cat", "dog")).classes == ("a", "b")


def test_spellings_of_a_number_are_one_class_in_all_parts() -> None:
    labels = of(np.array(["1", "2"] * 5, dtype=object), test=np.array(["1.0", " 2"], dtype=object))
    assert labels.y["test"].tolist() == [0, 1]
    text = of(np.array(["007", "x"] * 5, dtype=object), test=np.array(["007"], dtype=object))
    assert text.classes == ("007", "x")
    assert text.y["test"].tolist() == [0]


def test_missing_labels_are_dropped_with_a_note() -> None:
    values = np.array(["a", None, "b", "?", " NA ", "a", "b"], dtype=object)
    labels = of(values)
    assert labels.kept["train"].tolist() == [True, False, True, False, False, True, True]
    assert labels.y["train"].tolist() == [0, 1, 0, 1]
    assert "dropped 3 rows" in labels.notes[0]
    assert missing(np.array([1.0, np.nan])).tolist() == [False, True]
    with pytest.raises(DataError, match="all of 'y' are missing"):
        of(np.array(["?", ""], dtype=object))


def test_a_full_stop_after_the_test_labels() -> None:
    labels = of(["<=50K", ">50K"] * 5, test=["<=50K.", ">50K."])
    assert labels.y["test"].tolist() == [0, 1]
    assert "full stop" in labels.notes[0]


def test_a_class_that_only_the_test_has() -> None:
    with pytest.raises(DataError, match="'owl'.*training has cat, dog"):
        of(["cat", "dog"] * 5, test=["owl"])


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([], "auto", "needs samples"),
        (["a"] * 9, "auto", "two classes: all of 'y' are 'a'"),
        ([0] * 9, "auto", "two classes"),
        ([0.5] * 9, "auto", "must vary"),
        (["a", "b"], "regression", "needs numbers: 'y' holds 'a'"),
        ([0.5, np.inf], "regression", "must be finite"),
        ([0, 1], "ranking", "task must be"),
        (["a", "b", "c"], "auto", "all 3 of 'y' differ"),
        ([1j, 2], "auto", "holds the type complex128"),
        (np.arange(4).astype("datetime64[s]"), "auto", "holds the type datetime64"),
        (np.array([b"\xff", b"a"]), "auto", "UTF-8 text"),
        (np.array([[1], [2, 3]], dtype=object), "auto", "several values in one"),
    ],
)
def test_refused(values: Any, task: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        of(values, task)


def test_a_target_must_be_finite_as_it_is_trained() -> None:
    beyond = [np.nan, 0.5, 1e38, 4e38, -4e38, np.inf]  # float32 ends at 3.4e38
    with pytest.raises(DataError, match=r"'y' is 4e\+38 in row 3 \(from 0\) of the train part, the first of 3; drop"):
        of(beyond, "regression")
    with pytest.raises(DataError, match=r"'y' is inf in row 1 \(from 0\) of the test part, the first of 1; drop"):
        of([0.5, 1.5], "regression", test=[0.5, np.inf])
    largest = float(np.finfo(np.float32).max)
    assert of([-largest, 0.5, largest], "regression").y["train"].tolist() == [-largest, 0.5, largest]


def test_a_regression_keeps_its_units() -> None:
    labels = of(["1.5", "-2", "1e3"], "regression")
    assert labels.y["train"].tolist() == [1.5, -2, 1000]
    assert labels.y["train"].dtype == np.float32
    assert labels.classes == ()


def test_a_target_with_decimal_commas_is_a_quantity() -> None:
    values = np.random.default_rng(0).uniform(1, 9, 60).round(2)
    labels = of(np.array([f"{value:.2f}".replace(".", ",") for value in values], dtype=object), test=["2,5", "7"])
    assert labels.task == "regression"
    np.testing.assert_allclose(labels.y["train"], values, rtol=1e-6)
    assert labels.y["test"].tolist() == [2.5, 7]
    assert labels.notes == ("'y' read as numbers: commas are decimal",)


def test_a_target_with_groups_of_thousands_is_a_quantity() -> None:
    values = np.random.default_rng(0).integers(500, 90_000, 60)
    labels = of(np.array([f"{value:,}" for value in values], dtype=object))
    assert labels.task == "regression"
    assert labels.y["train"].tolist() == values.tolist()


def test_few_labels_that_might_be_numbers_with_commas_are_classes_unless_a_regression_is_asked_for() -> None:
    values = np.array(["1,2", "2,3", "1,3"] * 20, dtype=object)
    assert of(values).classes == ("1,2", "1,3", "2,3")
    assert of(values, "regression").y["train"][:3].tolist() == pytest.approx([1.2, 2.3, 1.3])


@pytest.mark.parametrize("odd", ["err", "$3.15"])
def test_numbers_with_a_slip_are_not_taken_for_classes(odd: str) -> None:
    values = [f"{value:.4f}" for value in np.random.default_rng(0).normal(size=200)]
    values[7] = odd
    with pytest.raises(
        DataError, match=re.escape(f"'y' is mostly numbers, but 1 are none, the first {odd!r}; correct")
    ):
        of(np.array(values, dtype=object))


def test_none_and_signs_are_names_of_classes_and_missing_among_numbers() -> None:
    assert of(np.array(["low", "high", "none"] * 5, dtype=object)).classes == ("high", "low", "none")
    assert of(np.array(["+", "-"] * 5, dtype=object)).classes == ("+", "-")
    labels = of(np.array(["low", "high", "NA", "?"] * 5, dtype=object))
    assert labels.classes == ("high", "low")
    assert labels.notes == ("dropped 10 rows without a label from the train part (missing: '?', 'NA')",)
    quantity = of(np.array(["1.5", "-", "2.5", "none"] * 9, dtype=object))
    assert (quantity.task, len(quantity.y["train"])) == ("regression", 18)


@pytest.mark.parametrize("step", [3, 0.5])
def test_a_slip_among_quantities_that_come_again_is_named(step: float) -> None:
    values = [f"{value:g}" for value in np.arange(1, 50) * step] * 9
    values[11] = "err"
    with pytest.raises(DataError, match="'y' is mostly numbers, but 1 are none, the first 'err'; correct"):
        of(np.array(values, dtype=object))


def test_a_rare_class_beside_digits_is_a_class() -> None:
    labels = of(np.array(["0", "1", "2", "3"] * 60 + ["x", "x"], dtype=object))
    assert labels.classes == ("0", "1", "2", "3", "x")
