"""What a search is asked to do, and how it ended."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from detol.search.limits import Limits
from detol.search.protocols import SearchSpace, Widths
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective, Origin
from detol.search.tally import Tally


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is known of a topology before it is trained: its costs, and why it may not be (empty: it may)."""

    costs: Mapping[str, float] = field(default_factory=dict)
    refusal: str = ""


@dataclass(frozen=True)
class Task:
    """What is searched for, and by which rules: everything of a search that is not a running part.

    Args:
        space: where candidates come from.
        recipe: how each is trained.
        data: content hash of the data set.
        epochs: of a training to the end.
        objectives: the first is the primary one.
        seed: of the search.
        limits: its bounds.
        width: ranks of each trial; with ``widths`` the least that one has.
        widths: chooses the ranks of each trial; ``None``: all have ``width``.
        references: whether the space's reference topologies are tried first.
        known: names of references that are left out all the same: other data sets tell of better ones.
        assess: costs of a topology, and whether it may be trained.
        inherit: how a candidate takes over the weights of a trained parent (``match``, ``morph``), or ``off``. One that
            comes with a record of its own (``Candidate.transfer``) always does.
        reuse: which results of other searches answer: ``always``, ``same-seed`` (of the training), or ``never``.
    """

    space: SearchSpace
    recipe: Recipe
    data: str
    epochs: int
    objectives: Sequence[Objective]
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    width: int = 1
    widths: Widths | None = None
    references: bool = True
    known: Collection[str] = ()
    assess: Callable[[Candidate], Assessment] = lambda _: Assessment()
    inherit: str = "off"
    reuse: str = "always"

    def inherits(self, candidate: Candidate) -> bool:
        """Return whether a candidate starts from the weights of a parent, where these are there."""
        return self.inherit != "off" and bool(candidate.parents) and not candidate.named

    def spares(self, candidate: Candidate) -> bool:
        """Return whether no rule stops a candidate: a reference, so that no search ends below the best of them.

        Where a rule pauses, all of them train to its last milestone, and the best to its end
        (:class:`~detol.search.contest.Contest`). Where time is the bound, a reference may take all of it: those
        contend for which there is time. A winner that is trained from scratch has earned its epochs.
        """
        return candidate.origin is Origin.RETRAIN or (candidate.named and math.isinf(self.limits.seconds))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the controller ended: counts and best trials, consumed seconds, and why it ended."""

    tally: Tally
    seconds: float
    ended: str
    interrupted: bool = False
