"""What a search is, as rows: its settings, its data set, its recipe, and the versions it ran on."""

import hashlib
import json
import platform
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import sqlalchemy as sa

from detol.errors import UsageError
from detol.results.rows import clean, now, to_text
from detol.results.schema import data_sets, recipes
from detol.search.recipe import Recipe

INCIDENTAL = frozenset({"name", "db", "tracking", "ray", "metrics", "workers", "quiet", "json", "runs", "directory"})
"""Settings that say where and how quickly a search runs, and not what it does."""

_LONGEST_NAME = 200


def check_name(name: str) -> None:
    """Check the name of a search.

    Raises:
        UsageError: empty, over 200 characters, or with a slash or control characters.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or "/" in name or not name.isprintable():
        raise UsageError(
            f"the name of a search has 1 to {_LONGEST_NAME} printable characters and no slash, got {name[:40]!r}: "
            "choose another --name"
        )


def config_digest(settings: Mapping[str, Any], data: str, recipe: str) -> str:
    """Return ``s1:`` and 16 hexadecimal digits: equal for searches that would do the same on the same data.

    Settings in ``INCIDENTAL`` do not count.
    """
    counted = {key: value for key, value in settings.items() if key not in INCIDENTAL}
    text = json.dumps([json.loads(to_text(counted)), data, recipe], sort_keys=True)
    return f"s1:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that shape a result."""
    found = {"python": platform.python_version()}
    for name in ("detol", "numpy", "torch", "ray"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def data_row(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a data set.

    Raises:
        ValueError: the description has no ``digest``, without which no result could be used again safely.
    """
    if not data.get("digest"):
        raise ValueError("the description of a data set needs the digest of its content")
    outputs = data.get("outputs")
    return {
        "digest": str(data["digest"]),
        "name": clean(str(data.get("name", ""))),
        "kind": str(data.get("kind", "")),
        "task": str(data.get("task", "")),
        "shape": to_text(list(data.get("shape") or [])),
        "outputs": None if outputs is None else int(outputs),
        "description": to_text(dict(data)),
    }


def foundations(data: Mapping[str, Any], recipe: Recipe) -> list[tuple[sa.Table, dict[str, Any]]]:
    """Return the rows that a search stands on, with their tables."""
    return [
        (data_sets, data_row(data)),
        (recipes, {"digest": recipe.digest, "settings": to_text(asdict(recipe))}),
    ]


def search_columns(
    name: str, settings: Mapping[str, Any], data: Mapping[str, Any], recipe: Recipe, digest: str
) -> dict[str, Any]:
    """Return the columns of a new search."""
    described = data_row(data)
    given = settings.get("objectives") or settings.get("objective") or ()
    objectives = [given] if isinstance(given, str) else [str(objective) for objective in given]
    return {
        "name": name,
        "data": described["digest"],
        "recipe": recipe.digest,
        "space": _name(settings.get("space")),
        "strategy": _name(settings.get("strategy")),
        "options": to_text(settings.get("options") or {}),
        "stopper": _name(settings.get("stopper", settings.get("stop"))),
        "objectives": to_text(objectives),
        "objective": objectives[0] if objectives else "",
        "seed": str(settings.get("seed", "")),
        "trials": settings.get("trials"),
        "epochs": settings.get("epochs"),
        "settings": to_text(dict(settings)),
        "config_digest": digest or config_digest(settings, described["digest"], recipe.digest),
        "versions": to_text(versions()),
        "state": "running",
        "created": now(),
        "uid": uuid.uuid4().hex,
    }


def _name(setting: object) -> str:
    """Return a setting as text: itself, or the name of an object."""
    return "" if setting is None else clean(str(getattr(setting, "name", setting)))
