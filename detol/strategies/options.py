"""Checks of options: their types by a signature, and a strategy's constructor refuses a value against its rule."""

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, TypeVar

from detol.errors import UsageError
from detol.search.option_types import check_types

Made = TypeVar("Made")


def whole(name: str, value: object, low: int) -> None:
    """Check an option that is a whole number.

    Raises:
        UsageError: ``value`` is no whole number, or below ``low``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise UsageError(f"{name} must be a whole number of at least {low}, got {value!r}")


def positive(name: str, value: float, *, zero: bool = False) -> None:
    """Check an option that is a finite number above zero (or zero).

    Raises:
        UsageError: ``value`` is not.
    """
    if not (0 < value < float("inf") or (zero and value == 0)):
        raise UsageError(f"{name} must be a finite number {'of at least' if zero else 'above'} 0, got {value!r}")


def share(name: str, value: float) -> None:
    """Check an option that is a share.

    Raises:
        UsageError: ``value`` is outside [0, 1].
    """
    if not 0 <= value <= 1:
        raise UsageError(f"{name} must be a share in [0, 1], got {value!r}")


def checked(
    owner: str, parameters: Mapping[str, Parameter], options: Mapping[str, Any], make: Callable[[], Made]
) -> Made:
    """Make something by its constructor, whose own rules come first, and check the types of its options.

    Raises:
        UsageError: an option against a rule of the constructor, or of another type.
    """
    try:
        made = make()
    except TypeError as error:
        check_types(owner, parameters, options)
        raise UsageError(f"{owner}: {error}") from None
    check_types(owner, parameters, options)
    return made
