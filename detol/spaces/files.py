"""Search spaces from users' own Python files."""

import ast
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from detol.errors import SpaceError
from detol.search.protocols import SearchSpace

CONSTANT = "SPACE"
_MEMBERS = (*(name for name in vars(SearchSpace) if not name.startswith("_")), "__contains__")


def is_file(text: str) -> bool:
    """Return whether ``text`` is meant as ``FILE.py`` or ``FILE.py:NAME``, and not as the name of a space."""
    return text.endswith(".py") or ".py:" in text


def load_file(text: str) -> SearchSpace:
    """Execute ``FILE.py`` and return its constant ``SPACE`` (or ``NAME``, from ``FILE.py:NAME``).

    Raises:
        SpaceError: no such file, it raises, it lacks the constant, or the constant is no search space; one line with
            the file and the line number of the fault.
    """
    found, where = load_constant(text, CONSTANT, "space file", lambda value: isinstance(value, SearchSpace))
    return as_space(found, where)


def load_constant(text: str, constant: str, what: str, fits: Callable[[Any], bool]) -> tuple[Any, str]:
    """Execute ``FILE.py`` and return its ``constant`` (or ``NAME``, from ``FILE.py:NAME``), and where that stands.

    Args:
        text: ``FILE.py`` or ``FILE.py:NAME``.
        constant: what is taken where no name is given.
        what: the file is called, in messages.
        fits: whether a value might have been meant, when the constant is missing.

    Raises:
        SpaceError: no such file, it raises, or it lacks the constant; one line with the file and the line number.
    """
    place, _, name = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(place).expanduser()
    if not path.is_file():
        raise SpaceError(f"{what} {place}: there is no such file")
    module = _execute(path, place, what)
    name = name or constant
    if not hasattr(module, name):
        upper = [key for key in vars(module) if not key.startswith("_") and fits(vars(module)[key])]
        near = f"; it has {', '.join(f'{place}:{key}' for key in upper)}" if upper else ""
        raise SpaceError(f"{what} {place}, line 1: it defines no constant {name}{near}")
    return getattr(module, name), f"{what} {place}, line {_line_of(path, name)}: {name}"


def as_space(found: object, where: str) -> SearchSpace:
    """Return ``found`` when it keeps the protocol.

    Raises:
        SpaceError: it does not; what is missing is named.
    """
    if isinstance(found, type):
        raise SpaceError(f"{where} is the class {found.__name__}: make an instance of it")
    missing = [name for name in _MEMBERS if not hasattr(found, name)]
    if missing:
        raise SpaceError(f"{where} is no search space ({type(found).__name__} lacks {', '.join(missing)})")
    assert isinstance(found, SearchSpace)
    return found


def _execute(path: Path, place: str, what: str) -> ModuleType:
    unique = f"detol_space_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise SpaceError(f"{what} {place}: Python cannot import it")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(unique)
    sys.modules[unique] = module  # dataclasses and pickling look the module up
    try:
        # Compiled here: the import system's cache would miss an edit within the same second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102  executing it is the point
    except (Exception, SystemExit) as fault:  # whatever a user's file does becomes one line
        if before is None:
            del sys.modules[unique]
        else:
            sys.modules[unique] = before
        raise SpaceError(f"{what} {fault_in(place, fault)}") from fault
    return module


def fault_in(text: str, fault: BaseException) -> str:
    """Return ``FILE.py, line N: reason`` of what code of a user's file (``FILE.py`` or ``FILE.py:NAME``) raised."""
    place = text.rpartition(":")[0] if ".py:" in text else text
    reason = f"{type(fault).__name__}: {fault}".splitlines()[0]
    return f"{place}, line {_fault_line(fault, Path(place).expanduser())}: {reason}"


def _fault_line(fault: BaseException, path: Path) -> int:
    """Return the line in the file where the fault happened, or the last one on the way to it."""
    if isinstance(fault, SyntaxError) and fault.filename == str(path):
        return fault.lineno or 1
    lines = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == str(path)]
    return (lines[-1] if lines else 1) or 1


def _line_of(path: Path, name: str) -> int:
    """Return the last line of the file's own level that binds ``name``; 1 when none does (an import of ``*``)."""
    found = 1
    for statement in ast.parse(path.read_bytes()).body:
        bound = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        if name in bound | {getattr(statement, "name", "")}:
            found = statement.lineno
    return found
