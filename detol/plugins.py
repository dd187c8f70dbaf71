"""Strategies and stopping rules from users' own Python files: ``FILE.py``, or ``FILE.py:NAME``.

What a file gives is called as the built-in classes are: a strategy with the space, ``seed=`` and the options, a
stopping rule with ``epochs=`` and the options; arguments that it does not take are left out.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from detol.errors import SpaceError, UsageError
from detol.search.protocols import Stopper, Strategy
from detol.spaces.files import is_file, load_constant

CONSTANTS = {"strategy": "STRATEGY", "stopper": "STOPPER"}
"""What is taken of a file where no name is given."""
_METHODS = {"strategy": Strategy, "stopper": Stopper}


def load(text: str, kind: str) -> Callable[..., Any]:
    """Return the class, or the function, that a file gives.

    Args:
        text: ``FILE.py`` or ``FILE.py:NAME``.
        kind: ``strategy`` or ``stopper``.

    Raises:
        UsageError: no such file, it raises, or it gives nothing that can be called; one line with file and line.
    """
    methods = [name for name in vars(_METHODS[kind]) if not name.startswith("_")]

    def fits(value: Any) -> bool:
        return isinstance(value, type) and all(hasattr(value, name) for name in methods)

    try:
        found, where = load_constant(text, CONSTANTS[kind], f"{kind} file", fits)
    except SpaceError as error:
        raise UsageError(str(error)) from error.__cause__
    if not callable(found):
        raise UsageError(f"{where} is {type(found).__name__}: it must be a class with {' and '.join(methods)}")
    if isinstance(found, type) and not fits(found):
        missing = [name for name in methods if not hasattr(found, name)]
        raise UsageError(f"{where} is no {kind}: {found.__name__} lacks {' and '.join(missing)}")
    made: Callable[..., Any] = found
    return made


def content(texts: Iterable[str]) -> str:
    """Return a digest of the files among these settings; empty when there are none."""
    files = [text.rpartition(":")[0] if ".py:" in text else text for text in texts if is_file(text)]
    parts = [Path(place).expanduser().read_bytes() for place in files]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32] if parts else ""


def absolute(text: str) -> str:
    """Return settings that name files with absolute paths, so that a resume from elsewhere finds them."""
    made = []
    for part in text.split("+"):
        place, colon, name = part.rpartition(":") if ".py:" in part else (part, "", "")
        made.append(f"{Path(place).expanduser().resolve()}{colon}{name}" if is_file(part) else part)
    return "+".join(made)


__all__ = ["CONSTANTS", "absolute", "content", "is_file", "load"]
