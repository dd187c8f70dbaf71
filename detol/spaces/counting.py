"""Counting and listing decision sequences."""

from collections.abc import Iterator, Mapping, Sequence

from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.walking import filled

STATES = 100_000
"""How many different situations the count may have to tell apart before it gives up."""


def count(choices: Sequence[Choice], states: int = STATES) -> int | None:
    """Return the exact number of decision sequences, or ``None`` when more than ``states`` situations occur.

    Dynamic programming over the choices in their order. A situation is what the conditions of the choices still to
    come can see of the options taken; sequences with the same situation have the same futures and are counted
    together. So a space of 10**30 sequences with a few dozen different conditions is counted in milliseconds.
    """
    last_use = {name: place for place, choice in enumerate(choices) for name in choice.when}
    views = {choice.name: _view(choice, choices) for choice in choices if choice.name in last_use}
    counts: dict[tuple[tuple[str, tuple[bool, ...]], ...], int] = {(): 1}
    rules = {choice.name: _rule_places(choice, choices) for choice in choices}
    for place, choice in enumerate(choices):
        grown: dict[tuple[tuple[str, tuple[bool, ...]], ...], int] = {}
        for situation, number in counts.items():
            seen = dict(situation)
            met = all(name in seen and seen[name][at] for name, at in rules[choice.name])
            for view, ways in _branches(choice, views.get(choice.name), met=met):
                new = {**seen, choice.name: view} if view is not None else seen
                key = tuple((name, bits) for name, bits in new.items() if last_use[name] > place)
                grown[key] = grown.get(key, 0) + number * ways
        if len(grown) > states:
            return None
        counts = grown
    return sum(counts.values())


def every(choices: Sequence[Choice]) -> Iterator[Decisions]:
    """Yield every decision sequence once, lazily, the last choices changing fastest."""
    current: Decisions | None = filled(choices, {})
    known = {choice.name: choice for choice in choices}
    while current is not None:
        yield current
        current = _following(choices, known, current)


def _following(choices: Sequence[Choice], known: Mapping[str, Choice], current: Decisions) -> Decisions | None:
    names = list(current)
    for place in range(len(names) - 1, -1, -1):
        name = names[place]
        options = known[name].options
        at = options.index(current[name])
        if at + 1 < len(options):
            kept: dict[str, Option] = {key: current[key] for key in names[:place]}
            kept[name] = options[at + 1]
            # What comes before the changed choice cannot see it, so exactly ``kept`` is open again.
            return filled(choices, kept)
    return None


def _view(choice: Choice, choices: Sequence[Choice]) -> Mapping[Option, tuple[bool, ...]]:
    """For each option, which of the conditions on this choice (in order) it meets."""
    rules = [other.when[choice.name] for other in choices if choice.name in other.when]
    return {option: tuple(option in rule for rule in rules) for option in choice.options}


def _rule_places(choice: Choice, choices: Sequence[Choice]) -> list[tuple[str, int]]:
    """For each condition of this choice, its place among all conditions on the same earlier choice."""
    places = []
    for name in choice.when:
        rules = [other.name for other in choices if name in other.when]
        places.append((name, rules.index(choice.name)))
    return places


def _branches(
    choice: Choice, view: Mapping[Option, tuple[bool, ...]] | None, *, met: bool
) -> Iterator[tuple[tuple[bool, ...] | None, int]]:
    """Yield (what later conditions see, number of options that look so); ``None``: nothing looks at this choice."""
    if not met:
        yield None, 1
    elif view is None:
        yield None, len(choice.options)
    else:
        groups: dict[tuple[bool, ...], int] = {}
        for bits in view.values():
            groups[bits] = groups.get(bits, 0) + 1
        yield from groups.items()
