"""Moves over decisions: sample, mutate, cross, neighbours. Functions of the choices alone; ``rng`` is used."""

from collections.abc import Iterator, Sequence

import numpy as np

from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.walking import filled, walk


def sample(choices: Sequence[Choice], rng: np.random.Generator) -> Decisions:
    """Draw each open choice uniformly; every sequence has a positive probability (not always the same one)."""
    return walk(choices, lambda choice: _draw(choice, rng))


def mutate(choices: Sequence[Choice], decisions: Decisions, rng: np.random.Generator) -> Decisions:
    """Change one open choice, uniform among those with another option.

    An option of an unordered choice is replaced by any other with equal probability, one of an ordered choice by
    another with a probability in proportion to 1 / distance, so that steps are mostly small. Choices that stay open
    keep their option; choices that the change opens are drawn uniformly. Returns equal decisions only when the space
    has no choice with two options open here.
    """
    movable = [choice for choice in choices if choice.name in decisions and len(choice.options) > 1]
    if not movable:
        return decisions
    moved = movable[int(rng.integers(len(movable)))]
    place = moved.options.index(decisions[moved.name])
    others = [other for other in range(len(moved.options)) if other != place]
    weights = np.array([1.0 / abs(other - place) if moved.ordered else 1.0 for other in others])
    changed = moved.options[others[int(rng.choice(len(others), p=weights / weights.sum()))]]

    def pick(choice: Choice) -> Option:
        if choice.name == moved.name:
            return changed
        return decisions[choice.name] if choice.name in decisions else _draw(choice, rng)

    return walk(choices, pick)


def cross(choices: Sequence[Choice], first: Decisions, second: Decisions, rng: np.random.Generator) -> Decisions:
    """Take each choice from a parent that has it, with equal probability where both do (uniform crossing).

    A choice that is open in the child alone (its conditions met by one parent each) is drawn uniformly.
    """

    def pick(choice: Choice) -> Option:
        offered = [parent[choice.name] for parent in (first, second) if choice.name in parent]
        return offered[int(rng.integers(len(offered)))] if offered else _draw(choice, rng)

    return walk(choices, pick)


def neighbours(choices: Sequence[Choice], decisions: Decisions) -> Iterator[Decisions]:
    """Yield all decisions that differ in one choice that is open here, in the order of choices and options.

    Dependent choices keep the option they have here; those that the change opens take their first option.
    """
    for moved in choices:
        if moved.name not in decisions:
            continue
        for option in moved.options:
            if option != decisions[moved.name]:
                yield filled(choices, {**decisions, moved.name: option})


def _draw(choice: Choice, rng: np.random.Generator) -> Option:
    return choice.options[int(rng.integers(len(choice.options)))]
