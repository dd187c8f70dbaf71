"""Which records of earlier searches a new one begins with: those of the nearest data sets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from detol.errors import DetolError
from detol.graph.digest import digest
from detol.meta.descriptor import Descriptor
from detol.meta.distance import Agreement, agreement, distance, similarity
from detol.search.protocols import SearchSpace
from detol.search.warm import Experience, PastTrial, WarmRecord, WarmSource
from detol.spaces.decisions import Decisions

NEAREST = 3
"""Data sets at most that a search begins with."""
FEWEST = 5
"""Records of a data set at least, unless it was asked for by name."""
LEAST = 0.2
"""Similarity below which a data set is left out, unless it was asked for by name."""


@dataclass(frozen=True)
class Near:
    """An experience with how near its data set is to the one that is searched now."""

    experience: Experience
    apart: float
    agreed: Agreement
    weight: float


def nearest(
    target: Descriptor,
    experiences: Sequence[Experience],
    descriptors: Mapping[str, Descriptor],
    *,
    named: bool = False,
    most: int = NEAREST,
) -> list[Near]:
    """Return one experience of each of the nearest data sets, nearest first.

    Args:
        target: of the data set that is searched now.
        experiences: of any data sets; of one of them that with the most trials counts.
        descriptors: by digest of the data set; those that lack one are as far as data of their kind can be.
        named: whether a person asked for these: none is left out then.
        most: data sets.
    """
    best: dict[str, Experience] = {}
    for experience in experiences:
        if experience.data not in best or experience.count > best[experience.data].count:
            best[experience.data] = experience
    found = []
    for experience in best.values():
        other = descriptors.get(experience.data)
        apart = 1.0 if other is None else distance(target, other)
        agreed = Agreement(0.0, 0) if other is None else agreement(target.probes, other.probes)
        weight = similarity(apart, agreed)
        if named or (weight >= LEAST and experience.count >= FEWEST):
            found.append(Near(experience, apart, agreed, max(LEAST, min(1.0, weight))))
    found.sort(key=lambda near: (-near.weight, near.experience.data))
    return found if named else found[:most]


def source(near: Near, space: SearchSpace) -> WarmSource | None:
    """Return an experience as a source for a space; ``None`` when the space has fewer than two of its topologies.

    A trial's decisions count where they decode into the trial's own topology; those of another space are read anew
    from the topology, where the space can.
    """
    experience = near.experience
    records = []
    for trial in sorted(experience.trials, key=lambda trial: -trial.score):
        decisions = own_decisions(space, trial)
        if decisions is not None:
            records.append(WarmRecord(decisions, trial.score, trial.trial))
    if len({record.decisions for record in records}) < 2:
        return None
    facts = {
        "data_name": experience.data_name,
        "searches": list(experience.searches),
        "space": experience.space,
        "objective": experience.objective,
        "recipe": experience.recipe,
        "epochs": experience.epochs,
        "distance": round(near.apart, 4) if near.apart < float("inf") else None,
        "tau": round(near.agreed.tau, 4) if near.agreed.shared else None,
        "shared": near.agreed.shared,
    }
    return WarmSource(", ".join(experience.searches), experience.data, tuple(records), round(near.weight, 6), facts)


def own_decisions(space: SearchSpace, trial: PastTrial) -> Decisions | None:
    """Return the decisions of a space that lead to a trial's topology, ``None`` where there are none."""
    try:
        if trial.topology is None:
            complete: Callable[[Decisions], Decisions] | None = getattr(space, "complete", None)
            decisions = complete(trial.decisions) if complete else trial.decisions
            return decisions if digest(space.decode(decisions)) == trial.digest else None
        read: Callable[..., Decisions | None] | None = getattr(space, "read", None)
        return read(trial.topology) if read else None
    except DetolError:  # not of this space, or a space that cannot tell
        return None
