"""Checks of the options of reading: all readers pass here, before they look at the source."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from detol.errors import DataError, unknown
from detol.search.option_types import check_types
from detol.workers.data import csvfile
from detol.workers.data.folder import size_of
from detol.workers.data.raw import KINDS, TASKS


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of :func:`detol.workers.data.read`, numbers as plain ones of Python, ``limit`` and ``seed`` whole.

    Args:
        options: by name, all but ``source``; ``copy`` and ``shuffle`` may be left out.

    Raises:
        DataError: an option of another type than it is declared with, or against its rule.
    """
    from detol.workers.data.reading import read

    made = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    for name in ("limit", "seed"):
        if isinstance(made[name], float) and made[name].is_integer():  # 1e3 is JSON for a whole number too
            made[name] = int(made[name])
    check_types("data", inspect.signature(read).parameters, made, DataError)
    for name, words in (("kind", (*KINDS, "auto")), ("task", (*TASKS, "auto")), ("header", csvfile.HEADERS)):
        if made[name] not in words:
            raise unknown(name, made[name], words, DataError)
    if not 0 < made["validation"] < 1:
        raise DataError(f"validation must be a share in (0, 1), got {made['validation']!r}; a search chooses by it")
    if not 0 <= made["test"] < 1:
        raise DataError(f"test must be a share in [0, 1), got {made['test']!r}")
    if made["seed"] < 0:
        raise DataError(f"seed must be at least 0, got {made['seed']!r}")
    if made["limit"] is not None and made["limit"] < 1:
        raise DataError(f"limit must be at least 1 sample, got {made['limit']!r}")
    size_of(made["resize"])
    _names(made["variables"])
    return made


def _names(variables: Any) -> None:
    pairs = variables.items() if isinstance(variables, Mapping) else ()
    if variables is not None and not (
        isinstance(variables, Mapping) and all(isinstance(text, str) for pair in pairs for text in pair)
    ):
        raise DataError(f"option variables of data must be names by role, got {variables!r}; e.g. --variables x=images")
