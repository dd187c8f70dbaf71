"""The one space class: a list of choices, some of them conditional, and a function that builds the topology."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from detol.errors import DetolError, SpaceError
from detol.graph.digest import digest
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces import counting, moves
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.walking import checked, first_open, validate

Build: TypeAlias = Callable[[Decisions], Topology]
Read: TypeAlias = Callable[[Topology], Iterable[Mapping[str, Option]]]
DataKind: TypeAlias = Literal["image", "signal", "features", "any"]

ENUMERABLE = 20_000
"""Up to this size a space without a reader decides membership by listing the digests of all of its topologies."""


class DecisionSpace:
    """A search space declared by its choices (keeps :class:`detol.search.protocols.SearchSpace`).

    ::

        SPACE = DecisionSpace(
            "mine",
            [Choice("depth", (1, 2), ordered=True), Choice("op_1", ("conv", "pool")),
             Choice("op_2", ("conv", "pool"), when={"depth": [2]})],
            build=lambda d: chain(*(op(str(d[f"op_{i}"])) for i in range(1, int(d["depth"]) + 1))),
            references={"plain": {"depth": 1, "op_1": "conv"}},
        )

    Args:
        name: unique name.
        choices: in the order in which they are taken; a condition (``when``) may refer to earlier ones alone.
        build: the topology of complete decisions; pure. Without one, the topology is a chain of ``symbol`` operations,
            one for each open choice, which is identified and searched but never trained: enough for a published table.
        references: hand-designed decisions by name, tried first by every search.
        description: one line for people.
        kind: the data it suits: ``image`` (C, H, W), ``signal`` (C, L), ``features`` (F,) or ``any``.
        source: the paper or system it comes from.
        read: decisions that might decode into a topology, read from its structure; each is verified, so it may guess
            and may yield incomplete or closed ones. Needed for ``topology in space`` where ``size`` is above
            ``ENUMERABLE`` and there is a ``build``.

    Raises:
        SpaceError: a declaration against the rules of :func:`detol.spaces.walking.validate`, or a reference that is
            not complete.
    """

    def __init__(
        self,
        name: str,
        choices: Sequence[Choice],
        build: Build | None = None,
        *,
        references: Mapping[str, Mapping[str, Option]] | None = None,
        description: str = "",
        kind: DataKind = "any",
        source: str = "",
        read: Read | None = None,
    ) -> None:
        self.name = name
        self.choices = tuple(choices)
        self.description = description
        self.kind: DataKind = kind
        self.source = source
        validate(name, self.choices)
        self._build = build or symbols
        self._read = read if build else _read_symbols
        self._references = MappingProxyType(
            {key: checked(name, self.choices, decided) for key, decided in (references or {}).items()}
        )

    def __repr__(self) -> str:
        """Return e.g. ``DecisionSpace('tiny', 4 choices)``."""
        return f"DecisionSpace({self.name!r}, {len(self.choices)} choices)"

    @cached_property
    def size(self) -> int | None:
        """How many decision sequences there are, exactly; ``None`` when the conditions are too many to count."""
        return counting.count(self.choices)

    @property
    def references(self) -> Mapping[str, Decisions]:
        """Hand-designed decisions by name."""
        return self._references

    def next(self, decided: Mapping[str, Option]) -> Choice | None:
        """Return the choice that is open after ``decided``, or ``None`` when all are taken."""
        return first_open(self.choices, decided)

    def sample(self, rng: np.random.Generator) -> Decisions:
        """Draw each open choice uniformly."""
        return moves.sample(self.choices, rng)

    def mutate(self, decisions: Decisions, rng: np.random.Generator) -> Decisions:
        """Change one open choice and what depends on it; see :func:`detol.spaces.moves.mutate`."""
        return moves.mutate(self.choices, decisions, rng)

    def cross(self, first: Decisions, second: Decisions, rng: np.random.Generator) -> Decisions:
        """Take each choice from one of two parents; see :func:`detol.spaces.moves.cross`."""
        return moves.cross(self.choices, first, second, rng)

    def neighbours(self, decisions: Decisions) -> Iterator[Decisions]:
        """Yield all decisions that differ in one open choice; see :func:`detol.spaces.moves.neighbours`."""
        return moves.neighbours(self.choices, decisions)

    def enumerate(self) -> Iterator[Decisions]:
        """Yield every decision sequence once, lazily."""
        return counting.every(self.choices)

    def complete(self, decided: Mapping[str, Option]) -> Decisions:
        """Return ``decided`` checked and in the order of the choices.

        Raises:
            SpaceError: a choice that is missing, closed or unknown, or an option that it has not.
        """
        return checked(self.name, self.choices, decided)

    def decode(self, decisions: Mapping[str, Option]) -> Topology:
        """Return the topology of complete decisions.

        Raises:
            SpaceError: as :meth:`complete`, or the space's own ``build`` fails on them.
        """
        whole = self.complete(decisions)
        try:
            found = self._build(whole)
        except SpaceError:
            raise
        except Exception as fault:  # a user's function: its failure is theirs, said in one line
            reason = f"{type(fault).__name__}: {fault}".splitlines()[0]
            raise SpaceError(f"space {self.name!r} cannot build {whole!r}: {reason}") from fault
        if not isinstance(found, Topology):
            raise SpaceError(f"space {self.name!r}: its build returned {type(found).__name__}, it must be a Topology")
        return found

    def read(self, topology: Topology) -> Decisions | None:
        """Return decisions that decode into a topology of the same digest, or ``None`` when there are none.

        Raises:
            SpaceError: the space is too large to list and was declared without ``read``.
        """
        wanted = digest(topology)
        if self._read is None:
            return self._listed().get(wanted)
        for guess in self._read(topology):
            try:
                decisions = self.complete(guess)
                if digest(self.decode(decisions)) == wanted:
                    return decisions
            except DetolError:
                continue
        return None

    def __contains__(self, topology: Topology) -> bool:
        """Return whether some decisions decode into a topology of the same digest (errors as :meth:`read`)."""
        return self.read(topology) is not None

    def _listed(self) -> Mapping[str, Decisions]:
        if self.size is None or self.size > ENUMERABLE:
            raise SpaceError(
                f"space {self.name!r}: membership is told by listing up to {ENUMERABLE} topologies, it has "
                f"{self.size or 'countless'}: declare it with read="
            )
        return self._digests

    @cached_property
    def _digests(self) -> Mapping[str, Decisions]:
        found: dict[str, Decisions] = {}
        for decisions in self.enumerate():
            found.setdefault(digest(self.decode(decisions)), decisions)
        return found


def symbols(decisions: Mapping[str, Option]) -> Topology:
    """Return the chain of ``symbol`` operations, one (name, value) for each decision."""
    return chain(*(op("symbol", name=name, value=value) for name, value in decisions.items()))


def _read_symbols(topology: Topology) -> Iterator[Mapping[str, Option]]:
    found: dict[str, Option] = {}
    for node in topology.nodes.values():
        if isinstance(node, Operation) and node.kind == "symbol":
            value = node["value"]
            if value is not None:
                found[str(node["name"])] = value
    yield found
