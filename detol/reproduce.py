"""The command line that does a search again."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from detol.config import STEPWISE, Settings
from detol.workers import devices

if TYPE_CHECKING:
    from detol.results.query import Query

APART = ("options", "db", "tracking", "ray", "metrics", "name", "references")
"""Settings without a plain flag, and those that say where a search ran rather than what it did."""


def command(settings: Settings) -> str:
    """Return ``detol search ...`` with the settings that differ from the defaults, quoted for a shell."""
    defaults = Settings()
    words = ["detol", "search"]
    for field in fields(Settings):
        value, usual = getattr(settings, field.name), getattr(defaults, field.name)
        if field.name == "stop" and settings.strategy.partition(":")[0].lower() in STEPWISE:
            usual = "none"
        if field.name in APART or value == usual or value is None:
            continue
        for part in value if isinstance(value, tuple) else (value,):
            words += [f"--{field.name.replace('_', '-')}", repr(part) if isinstance(part, float) else str(part)]
    if settings.references != defaults.references:
        words.append("--references" if settings.references else "--no-references")
    for section, pairs in settings.options.items():
        for key, value in pairs.items():
            words += ["--set", f"{section}.{key}={_text(value)}"]
    return shlex.join(words)


def _text(value: Any) -> str:
    """Return an option so that ``--set`` reads it back: as JSON, or as the text it is where JSON would not read it."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except json.JSONDecodeError:
        return value
    return json.dumps(value)  # "3" as text is not the number 3


def of_search(query: "Query", name: str) -> str:
    """Return the command line of a recorded search; empty when there is none.

    There is none for a search that was started with an object in Python, or that was written by something else.

    Raises:
        ResultsError: no such search.
    """
    stored: Mapping[str, Any] = query.settings(name)["settings"]
    if stored.get("objects") or not isinstance(stored.get("settings"), Mapping):
        return ""
    settings = Settings.from_dict(stored["settings"])
    if not (stored.get("recipe") or {}).get("averaging"):  # asked for, or from before averaging was usual
        unaveraged = {**settings.section("recipe"), "averaging": 0.0}
        settings = replace(settings, options={**settings.options, "recipe": unaveraged})
    precision = (stored.get("recipe") or {}).get("precision", "float32")
    # Which one is usual depends on the processor: told wherever another one than here, or than elsewhere, may be meant.
    if "precision" not in settings.section("recipe") and (precision != "float32" or devices.multiplies_bfloat16()):
        exact = {**settings.section("recipe"), "precision": precision}
        settings = replace(settings, options={**settings.options, "recipe": exact})
    return command(replace(settings, space=str(stored.get("space") or settings.space)) if _auto(settings) else settings)


def _auto(settings: Settings) -> bool:
    return settings.space == "auto"
