"""How the rows of a table name topologies: by a code, by their options, or by a column for each decision."""

import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from detol.errors import SpaceError, UsageError, unknown
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin
from detol.spaces.decisions import Decisions, Option
from detol.spaces.files import fault_in

Rows: TypeAlias = Callable[[Decisions], int]
"""The number of the row of complete decisions; ``UsageError`` when there is none."""
COUNTED = 2_000_000
"""Spaces of up to so many decision sequences are gone through, so that missing rows are found before the search."""
NOTHING = frozenset({"", "none", "null", "nan", "na", "-"})
"""What stands in a row for a decision that others close."""


def code_of(space: SearchSpace) -> Callable[[Decisions], str] | None:
    """Return the function ``code`` of the module that declares a space, if it has one.

    A space's file may define ``code(decisions) -> str`` beside ``SPACE``: what the key column of tables holds.
    """
    for module in list(sys.modules.values()):
        found = getattr(module, "__dict__", {}).get("code")
        if not callable(found) or getattr(found, "__module__", "") != module.__name__:
            continue
        if any(value is space for value in vars(module).values()):
            return _tolerant(found, space)
    return None


def _tolerant(code: Callable[[Any], Any], space: SearchSpace) -> Callable[[Decisions], str]:
    """Let ``code`` take decisions or a candidate, as its author likes."""

    def coded(decisions: Decisions) -> str:
        try:
            try:
                return str(code(decisions))
            except AttributeError:  # it reads candidate.decisions or candidate.topology
                return str(code(Candidate(decisions, space.decode(decisions), Origin.SAMPLE)))
        except Exception as fault:  # whatever a user's file does becomes one line
            file = sys.modules[code.__module__].__file__ or code.__module__
            raise SpaceError(f"space file {fault_in(file, fault)}, in code()") from fault

    return coded


def by_code(keys: Sequence[str], space: SearchSpace, code: Callable[[Decisions], str], path: str, column: str) -> Rows:
    """Return rows by ``code(decisions)``."""
    places = {key: row for row, key in enumerate(keys)}

    def row(decisions: Decisions) -> int:
        key = code(decisions)
        if key not in places:
            short = key.lstrip("0") or "0"
            lost = f": {short!r} is there, so leading zeros were lost: keep the column as text" * (short in places)
            raise UsageError(f"table {path}: no row has {column} {key!r}, a topology of the space{lost}")
        return places[key]

    if space.size is not None and space.size <= COUNTED:
        met = {row(decisions) for decisions in space.enumerate()}
        if len(met) < len(keys):
            odd = next(place for place in range(len(keys)) if place not in met)
            raise UsageError(
                f"table {path}, row {odd + 1}: {column} {keys[odd]!r} is no topology of space {space.name!r}"
            )
    return row


def by_key(keys: Sequence[str], space: SearchSpace, path: str, column: str) -> Rows:
    """Return rows by options in the order of the choices, joined by ``|``, or by a JSON object of decisions."""
    return _places(
        [_parsed(key, space, f"table {path}, row {n + 1}: {column}") for n, key in enumerate(keys)], space, path
    )


def by_columns(frame: Any, space: SearchSpace, path: str) -> Rows:
    """Return rows by a column for each choice, closed ones empty."""
    records = frame.to_dict("records")
    first = space.next(Decisions())
    if first is None or first.name not in frame.columns:
        name = "" if first is None else first.name
        raise UsageError(f"table {path}: it has no column for decision {name!r}: name the key column with --key")
    found = [_walked(record, space, f"table {path}, row {n + 1}") for n, record in enumerate(records)]
    return _places(found, space, path)


def row_decisions(
    frame: Any, space: SearchSpace, path: str, *, key: str = "", code: Callable[[Decisions], str] | None = None
) -> list[Decisions]:
    """Return the decisions of each row; rows may be missing, and several may be of one topology.

    Args:
        frame: the table, all text.
        space: what its rows are topologies of.
        path: of the table, for messages.
        key: column that names the topology; empty: a column for each decision.
        code: what the key column holds of decisions (the space is gone through, so it has to be finite); without it,
            options joined by ``|``, or a JSON object.

    Raises:
        UsageError: no such column, or a row that is no topology of the space.
    """
    if not key:
        return [_walked(row, space, f"table {path}, row {n + 1}") for n, row in enumerate(frame.to_dict("records"))]
    if key not in frame.columns:
        raise unknown(f"key column of {path}", key, map(str, frame.columns))
    keys = frame[key].tolist()
    if code is None or space.size is None or space.size > COUNTED:
        return [_parsed(each, space, f"table {path}, row {n + 1}: {key}") for n, each in enumerate(keys)]
    wanted = set(keys)
    found = {coded: decisions for decisions in space.enumerate() if (coded := code(decisions)) in wanted}
    for n, each in enumerate(keys):
        if each not in found:
            raise UsageError(f"table {path}, row {n + 1}: {key} {each!r} is no topology of space {space.name!r}")
    return [found[each] for each in keys]


def _parsed(key: str, space: SearchSpace, where: str) -> Decisions:
    if key.lstrip().startswith("{"):
        try:
            given = json.loads(key)
        except json.JSONDecodeError:
            raise UsageError(f"{where} {key!r} is no JSON object") from None
        return _walked({name: str(value) for name, value in given.items()}, space, where, given)
    parts = key.split("|")
    taken: dict[str, Option] = {}
    for part in parts:
        choice = space.next(Decisions(taken))
        if choice is None:
            break
        if any("|" in str(option) for option in choice.options):
            raise UsageError(f"{where}: options of decision {choice.name!r} hold a |: write keys as JSON objects")
        taken[choice.name] = _option(part, choice.options, f"{where} {key!r}, decision {choice.name!r}")
    if len(taken) != len(parts) or space.next(Decisions(taken)) is not None:
        raise UsageError(
            f"{where} {key!r} has {len(parts)} options, space {space.name!r} takes others: join one for each open "
            "decision by |, or define code(decisions) beside SPACE"
        )
    return Decisions(taken)


def _walked(
    record: Mapping[str, str], space: SearchSpace, where: str, names: Collection[str] | None = None
) -> Decisions:
    """Return the decisions of a record; ``names``: what in it are decisions, by default all that the space has."""
    taken: dict[str, Option] = {}
    while (choice := space.next(Decisions(taken))) is not None:
        if choice.name not in record:
            raise UsageError(
                f"{where}: decision {choice.name!r} of space {space.name!r} is missing: name the column that tells the "
                f"topology with --key, or give each decision a column"
            )
        taken[choice.name] = _option(record[choice.name], choice.options, f"{where}, decision {choice.name!r}")
    for name in names if names is not None else [choice.name for choice in getattr(space, "choices", ())]:
        if name not in taken and record.get(name, "").strip().lower() not in NOTHING:
            raise UsageError(
                f"{where}: {name!r} is no open decision of the others, and it is {record[name]!r}: leave it empty"
            )
    return Decisions(taken)


def _option(text: str, options: Sequence[Option], where: str) -> Option:
    for option in options:
        if text == str(option):
            return option
    for option in options:
        if isinstance(option, int | float) and not isinstance(option, bool):
            try:
                if float(text) == option:
                    return option
            except ValueError:
                continue
        elif isinstance(option, bool) and text.lower() in (str(option).lower(), str(int(option))):
            return option
    raise UsageError(f"{where}: {text!r} is none of its options {', '.join(map(str, options))}")


def _places(found: Sequence[Decisions], space: SearchSpace, path: str) -> Rows:
    places: dict[Decisions, int] = {}
    for row, decisions in enumerate(found):
        if decisions in places:
            raise UsageError(
                f"table {path}: rows {places[decisions] + 1} and {row + 1} are the same topology: keep one"
            )
        places[decisions] = row
    if space.size is not None and len(places) < space.size:
        lost = next(decisions for decisions in space.enumerate() if decisions not in places)
        raise UsageError(
            f"table {path}: it has {len(places)} of the {space.size} topologies of space {space.name!r}; one that is "
            f"missing: {dict(lost)}"
        )

    def row_of(decisions: Decisions) -> int:
        if decisions not in places:
            raise UsageError(f"table {path}: it has no row for {dict(decisions)}")
        return places[decisions]

    return row_of
