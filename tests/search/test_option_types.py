"""The types of options are those of a signature."""

import inspect
from typing import Any

import pytest

from detol.errors import DataError, UsageError
from detol.search.option_types import check_types


def takes(
    flag: bool = True,
    count: int = 1,
    rate: float = 0.5,
    name: str = "a",
    maybe: int | None = None,
    several: "float | str" = 1.0,
    any_: Any = None,
    more: tuple[int, ...] = (),
    bare=None,
) -> None: ...


PARAMETERS = inspect.signature(takes).parameters


@pytest.mark.parametrize(
    "options",
    [
        {"flag": False, "count": 3, "rate": 2, "name": "b", "maybe": None, "several": "x"},
        {"maybe": 4, "several": 1.5, "rate": float("nan")},
        {"any_": object(), "more": "what its owner checks", "bare": 1, "unknown": 2},
    ],
)
def test_what_fits_passes(options: dict[str, Any]) -> None:
    check_types("x", PARAMETERS, options)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("flag", "maybe", "true or false"),
        ("flag", 1, "true or false"),
        ("count", "foo", "a whole number"),
        ("count", 2.5, "a whole number"),
        ("count", True, "a whole number"),
        ("rate", "nan", "a number"),
        ("rate", True, "a number"),
        ("name", 3, "text"),
        ("maybe", "x", "a whole number or none"),
        ("several", None, "a number or text"),
    ],
)
def test_another_type_is_refused_with_option_value_and_rule(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_types("guided", PARAMETERS, {name: value})
    assert str(caught.value) == f"option {name} of guided must be {wanted}, got {value!r}"


def test_the_error_is_that_of_the_owner() -> None:
    with pytest.raises(DataError, match="option count of data must be a whole number, got 'foo'"):
        check_types("data", PARAMETERS, {"count": "foo"}, DataError)
