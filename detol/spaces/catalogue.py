"""The catalogue of search spaces: built in, from a user's file, or registered by another package.

Nothing is imported before it is asked for: a name costs a look into a folder and the installed packages' metadata.
"""

import importlib
import pkgutil
from importlib import metadata
from os import PathLike

import detol.search_spaces
from detol.errors import SpaceError, unknown
from detol.search.protocols import SearchSpace
from detol.spaces.files import CONSTANT, as_space, is_file, load_file

GROUP = "detol.spaces"
"""The entry point group in which other packages register: ``NAME = "module:SPACE"``."""

AUTO = {"image": "image_cell", "signal": "signal", "features": "tabular"}
"""The space that suits each kind of data."""


def builtins() -> list[str]:
    """Return the names of the spaces that come with detol, sorted; imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(detol.search_spaces.__path__) if module.name[0] != "_")


def names() -> list[str]:
    """Return the names of all spaces, those of other packages included, sorted; imports none of them."""
    return sorted({*builtins(), *(point.name for point in metadata.entry_points(group=GROUP))})


def load(space: str | PathLike[str] | SearchSpace) -> SearchSpace:
    """Return a search space.

    Args:
        space: a name of :func:`names`, ``FILE.py`` (its constant ``SPACE``), ``FILE.py:NAME``, or an object that keeps
            the protocol, which is returned as it is.

    Raises:
        SpaceError: unknown (near names are given), a file or package that fails, or an object that is no space.
    """
    if isinstance(space, PathLike):
        return load_file(str(space))
    if not isinstance(space, str):
        return as_space(space, "the space given")
    if is_file(space):
        return load_file(space)
    if space in builtins():
        module = importlib.import_module(f"detol.search_spaces.{space}")
        return as_space(getattr(module, CONSTANT), f"the built-in space {space!r}")
    return _registered(space)


def auto(kind: str) -> SearchSpace:
    """Return the space that suits a kind of data: ``image``, ``signal`` or ``features``.

    Raises:
        SpaceError: another kind.
    """
    if kind not in AUTO:
        raise unknown("kind of data", kind, AUTO, SpaceError)
    return load(AUTO[kind])


def _registered(name: str) -> SearchSpace:
    points = [point for point in metadata.entry_points(group=GROUP) if point.name == name]
    if not points:
        raise unknown("space", name, names(), SpaceError)
    where = f"space {name!r} of the entry point {points[0].value!r}"
    if len({point.value for point in points}) > 1:
        others = ", ".join(sorted({point.value for point in points}))
        raise SpaceError(f"space {name!r} is registered by several packages ({others}): remove one of them")
    try:
        found = points[0].load()
    except Exception as fault:  # another package's import: its failure is said in one line
        raise SpaceError(f"{where} fails: {f'{type(fault).__name__}: {fault}'.splitlines()[0]}") from fault
    return as_space(found, where)
