"""Whether options that a person gave are of the types that a signature declares."""

from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from detol.errors import UsageError

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "text"),
    "None": ((type(None),), "none"),
}


def check_types(
    owner: str, parameters: Mapping[str, Parameter], options: Mapping[str, Any], error: type[UsageError] = UsageError
) -> None:
    """Refuse an option whose value is of another type than its parameter is declared with.

    Only declarations of ``bool``, ``int``, ``float``, ``str``, ``None`` and unions of these say what a person can give;
    what others take, and ranges, their owner checks.

    Args:
        owner: whose options they are, for the message.
        parameters: of its signature.
        options: by name; those that are no parameters are passed over.
        error: that is raised.

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
            raise error(f"option {name} of {owner} must be {wanted}, got {value!r}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether a value is of one of some types; to Python ``True`` is a whole number too."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
