"""Checks of options: their types by a signature, and a strategy's constructor refuses a value against its rule."""

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, TypeVar

from detol.errors import UsageError

Made = TypeVar("Made")

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
    "None": ((type(None),), "none"),
}


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


def check_types(owner: str, parameters: Mapping[str, Parameter], options: Mapping[str, Any]) -> None:
    """Refuse an option whose value is of another type than its parameter is declared with.

    Only declarations of ``bool``, ``int``, ``float``, ``str``, ``None`` and unions of these say what a person can give;
    what others take, and ranges, their owner checks.

    Args:
        owner: whose options they are, for the message.
        parameters: of its signature.
        options: by name; those that are no parameters are passed over.

    Raises:
        UsageError: a value of another type.
    """
    for name, value in options.items():
        declared = getattr(parameters.get(name), "annotation", Parameter.empty)
        text = declared.__name__ if isinstance(declared, type) else str(declared)
        kinds = [kind.strip() for kind in text.split("|")]
        if any(kind not in _KINDS for kind in kinds):
            continue
        if not any(_is(value, _KINDS[kind][0]) for kind in kinds):
            wanted = " or ".join(_KINDS[kind][1] for kind in kinds)
            raise UsageError(f"option {name} of {owner} must be {wanted}, got {value!r}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether a value is of one of some types; to Python ``True`` is a whole number too."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
