"""Counting and listing decision sequences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.walking import filled

View: TypeAlias = tuple[bool, ...]
"""What later conditions see of one choice: for each condition on it, in order, whether it is met."""

STATES = 50_000
"""How many different situations the count may have to tell apart before it gives up."""


def count(choices: Sequence[Choice], states: int = STATES) -> int | None:
    """Return the exact number of decision sequences, or ``None`` when more than ``states`` situations occur.

    Dynamic programming over the choices in their order. A situation is what the conditions of the choices still to
    come can see of the options taken; sequences with the same situation have the same futures and are counted
    together. So a space of 10**30 sequences with a few dozen different conditions is counted in milliseconds.
    """
    last_use = {name: place for place, choice in enumerate(choices) for name in choice.when}
    counts: dict[tuple[View, ...], int] = {(): 1}
    live: list[str] = []  # the choices whose views make up a situation
    for place, choice in enumerate(choices):
        rules = [(live.index(name), _rules(name, choices).index(choice)) for name in choice.when]
        stay = [at for at, name in enumerate(live) if last_use[name] > place]
        views = [
            tuple(option in rule.when[choice.name] for rule in _rules(choice.name, choices))
            for option in choice.options
        ]
        opened = Counter(views)
        closed = Counter([(False,) * len(views[0])])
        grown: dict[tuple[View, ...], int] = {}
        for situation, number in counts.items():
            kept = tuple(situation[at] for at in stay)
            for view, ways in (opened if all(situation[at][rule] for at, rule in rules) else closed).items():
                key = (*kept, view) if choice.name in last_use else kept
                grown[key] = grown.get(key, 0) + number * ways
        if len(grown) > states:
            return None
        counts = grown
        live = [live[at] for at in stay] + [choice.name] * (choice.name in last_use)
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


def _rules(name: str, choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices with a condition on the choice of that name."""
    return [choice for choice in choices if name in choice.when]
