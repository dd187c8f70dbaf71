"""Decisions: the sequence of choices that a search space leaves open."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Option: TypeAlias = bool | int | float | str
"""A value a choice may take."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One open choice of a space.

    Args:
        name: unique within the space.
        options: the values it may take, at least one, no repeats.
        when: earlier choices and the values they must have for this one to be open (all of them); empty: always.
        ordered: whether the options are steps of a quantity (widths, depths), so that neighbours in the list are near.
        before: for a choice that a space got later: the option that decisions without it stand for; ``None``: it is
            missing there. So what was recorded under an earlier form of the space stays of use.
    """

    name: str
    options: tuple[Option, ...]
    when: Mapping[str, Collection[Option]] = field(default_factory=dict, hash=False)
    ordered: bool = False
    before: Option | None = None


class Decisions(Mapping[str, Option]):
    """An immutable, hashable mapping from a choice's name to the option taken, in the order of the choices.

    Two are equal when they hold the same options under the same names.
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, Option] | None = None, /, **named: Option) -> None:
        self._items: dict[str, Option] = {**(items or {}), **named}
        self._hash: int | None = None

    def __getitem__(self, name: str) -> Option:
        """Return the option taken for the choice of that name."""
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the choices in their order."""
        return iter(self._items)

    def __len__(self) -> int:
        """Return how many choices were taken."""
        return len(self._items)

    def __hash__(self) -> int:
        """Hash the items, independent of their order."""
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __reduce__(self) -> tuple[type["Decisions"], tuple[dict[str, Option]]]:
        """Pickle without the hash: hashes of strings differ from process to process."""
        return Decisions, (self._items,)

    def __repr__(self) -> str:
        """Return e.g. ``Decisions(depth=2, op_1='conv')``."""
        return f"Decisions({', '.join(f'{k}={v!r}' for k, v in self._items.items())})"

    def with_(self, name: str, option: Option) -> "Decisions":
        """Return these decisions with one more (at the end) or one other option."""
        return Decisions({**self._items, name: option})
