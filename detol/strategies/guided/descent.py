"""Whose child a proposal is: what it starts from where weights are inherited."""

from collections.abc import Sequence

from detol.spaces.decisions import Decisions
from detol.strategies.base import Told

KIN = 1 / 3
"""A child differs from its parent in at most this share of the choices of both."""


def parents(decisions: Decisions, leaders: Sequence[Told]) -> tuple[int, ...]:
    """Return the trial of the leader that differs least, at most by ``KIN``; nothing where all differ by more.

    Args:
        decisions: of the proposal.
        leaders: trials to choose from, best first: of several that differ alike, the first.
    """
    apart = [differing(decisions, told.decisions) for told in leaders]
    least = min(apart, default=1.0)
    return (leaders[apart.index(least)].number,) if least <= KIN else ()


def differing(one: Decisions, two: Decisions) -> float:
    """Return in [0, 1] the share of choices, of those that either has taken, that are not the same in both."""
    names = one.keys() | two.keys()
    return sum(one.get(name) != two.get(name) for name in names) / max(1, len(names))
