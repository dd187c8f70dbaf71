"""What a search begins with from other data sets: chosen from the results database, and frozen into its record."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from detol import defaults, wire
from detol.config import Settings
from detol.errors import ResultsError, UsageError
from detol.search.protocols import SearchSpace
from detol.search.recipe import Recipe
from detol.search.records import parse_objective
from detol.search.warm import WarmSource
from detol.spaces.decisions import Decisions

if TYPE_CHECKING:
    import sqlalchemy as sa

    from detol.meta.choose import Near
    from detol.meta.descriptor import Descriptor
    from detol.results.store import Database
    from detol.workers.data.dataset import Dataset

RECORD = "warm_records"
"""Where a search's record holds its sources."""
BELIEVED = 0.5
"""Weight of a source from which on references can be left out for what it tells of them."""
LEARNT = 10
"""Scored trials from which on a search is worth describing its data set for: fewer start nothing."""


@dataclass(frozen=True)
class Warm:
    """What a search begins with.

    Args:
        sources: nearest first; empty for a cold search.
        descriptor: of its data set, where it was made.
        recipe: settings of the recipe that did better than the usual one on the nearest data set.
    """

    sources: tuple[WarmSource, ...] = ()
    descriptor: "Descriptor | None" = None
    recipe: Mapping[str, Any] = field(default_factory=dict)


COLD = Warm()


def wanted(settings: Settings, *, own_strategy: bool = False) -> bool:
    """Return whether a search is to look for sources: by default the guided strategy alone does."""
    if settings.warm:
        return settings.warm != ("off",)
    return settings.strategy == "guided" and not own_strategy


def warm(settings: Settings, dataset: "Dataset", space: SearchSpace, objective: str, usual: Recipe) -> Warm:
    """Return what a search begins with; reads the results database, writes nothing.

    Results on the very data set that is searched are left out, unless a search was asked for by name. Without names a
    missing database, or one without anything near, is a cold start.

    Args:
        settings: of the search.
        dataset: what it searches on.
        space: of it.
        objective: the primary one, as text.
        usual: the recipe that it has by default.

    Raises:
        UsageError: a search was asked for by name that has nothing for this one.
        ResultsError: there is no such search.
    """
    names = settings.warm if settings.warm not in ((), ("auto",), ("off",)) else ()
    if parse_objective(objective).metric in (*defaults.COSTS, "seconds"):
        return _none(names, f"the objective {objective} is known without training")
    try:
        database = wire.database(settings.db, create=False)
    except ResultsError:
        if names:
            raise
        return COLD  # there is none yet; one that cannot be reached will be said when the search opens it
    with database, database.read() as connection:
        return _warm(connection, names, bool(settings.warm), dataset, space, usual)


def _warm(
    connection: "sa.Connection",
    names: Sequence[str],
    asked: bool,
    dataset: "Dataset",
    space: SearchSpace,
    usual: Recipe,
) -> Warm:
    from detol.meta import choose, recipes
    from detol.results import descriptors, experience, places

    for name in names:
        places.search_id(connection, name)
    found = experience.experiences(connection, without="" if names else dataset.digest, only=names)
    found = [each for each in found if parse_objective(each.objective or "score").metric not in defaults.COSTS]
    data = {each.data for each in found}
    kinds = descriptors.data_rows(connection, data)
    fitting = [each for each in found if kinds[each.data]["kind"] in (dataset.kind, "")]
    if not fitting:
        return _none(names, f"they have no scored trial on {dataset.kind} data")
    target, described = _descriptors(connection, dataset, kinds)
    usable = [each for each in fitting if each.space == space.name] or fitting
    sources = []
    near = choose.nearest(target, usable, described, named=bool(names))
    for each in near:
        made = _source(connection, each, space, foreign=each.experience.space != space.name)
        if made is not None:
            sources.append(made)
    if not sources:
        return _none(names, f"space {space.name} has fewer than two of their scored topologies", target)
    better: Mapping[str, Any] = {}
    if asked:  # a recipe of its own parts a search from results under the usual one: not unless it was asked for
        of = [each for each in found if each.data == sources[0].data]
        read = [experience.with_trials(connection, each) for each in of] if len(of) > 1 else []
        better = recipes.better_recipe(read, sources[0].data, asdict(usual))
    return Warm(tuple(sources), target, better)


def _source(connection: "sa.Connection", near: "Near", space: SearchSpace, *, foreign: bool) -> WarmSource | None:
    """Return what a search of the space learns from results; ``foreign``: from their topologies, not their decisions.

    Decisions may be of an earlier form of the space: where some are, the topologies are read if more come of that.
    """
    from detol.meta import choose
    from detol.results import experience

    trials = experience.with_trials(connection, near.experience, foreign=foreign)
    made = choose.source(replace(near, experience=trials), space)
    if foreign or (made is not None and len(made.records) == len(trials.trials)):
        return made
    anew = _source(connection, near, space, foreign=True)
    return max(filter(None, (made, anew)), key=lambda source: len(source.records), default=None)


def _none(names: Sequence[str], why: str, descriptor: "Descriptor | None" = None) -> Warm:
    if names:
        raise UsageError(f"nothing of {', '.join(names)} can warm this search: {why}; name others, or --warm off")
    return Warm((), descriptor)


def _descriptors(
    connection: "sa.Connection", dataset: "Dataset", kinds: Mapping[str, Mapping[str, Any]]
) -> "tuple[Descriptor, dict[str, Descriptor]]":
    """Return the descriptor of the data set, and those of others: as they were kept, or from what is known of them."""
    from detol.meta.descriptor import VERSION, Descriptor, sizes
    from detol.results import descriptors

    kept = descriptors.bodies(connection, VERSION, [*kinds, dataset.digest])
    found = {digest: Descriptor.from_dict(body) for digest, body in kept.items()}
    for digest, row in kinds.items():
        if digest not in found:
            splits = row["description"].get("splits", {})
            figures = sizes(row["shape"], int(splits.get("train", 1)), row["outputs"] or 1)
            figures = figures if splits else {k: v for k, v in figures.items() if k != "log_rows"}
            found[digest] = Descriptor(digest, row["name"], row["kind"] or dataset.kind, row["task"], figures)
    target = found.pop(dataset.digest, None) if dataset.digest in kept else None
    found.pop(dataset.digest, None)
    others = {digest: each for digest, each in found.items() if digest != dataset.digest}
    if target is None or not target.probes:
        target = described(dataset)
    return target, {**others, dataset.digest: target}


def described(dataset: "Dataset") -> "Descriptor":
    """Return the descriptor of a data set with its probes: a second or two of one core."""
    from detol.meta.descriptor import describe
    from detol.meta.probe import probe_scores

    return describe(dataset).with_probes(probe_scores(dataset))


def known_references(space: SearchSpace, sources: Sequence[WarmSource]) -> frozenset[str]:
    """Return the names of references that sources hold, without the best of each source: those are worth a training.

    Of equal ones none is known to be worse. A source that is hardly believed leaves nothing out.

    Args:
        space: that is searched.
        sources: of its warm start; those of a weight under ``BELIEVED`` do not count.
    """
    known: set[str] = set()
    best: set[str] = set()
    for source in sources:
        if source.weight < BELIEVED:
            continue
        scores: dict[Decisions, float] = {}
        for record in source.records:  # best first
            scores.setdefault(record.decisions, record.score)
        held = {name: scores[decisions] for name, decisions in space.references.items() if decisions in scores}
        known |= held.keys()
        best |= {name for name, score in held.items() if score >= max(held.values())}
    return frozenset(known - best)


def from_record(stored: Sequence[Mapping[str, Any]]) -> tuple[WarmSource, ...]:
    """Return the sources that a search's record holds."""
    return tuple(WarmSource.from_dict(values) for values in stored)


def note(database: "Database", search: str, found: Warm) -> None:
    """Write down what a search that starts begins with, and the descriptor that was made for it."""
    from detol.meta.descriptor import VERSION
    from detol.results import descriptors

    def write(connection: "sa.Connection") -> None:
        if found.descriptor is not None:
            descriptors.keep(connection, found.descriptor.data, VERSION, found.descriptor.as_dict())
        descriptors.list_sources(connection, search, found.sources)

    if found.sources or found.descriptor is not None:
        database.write(write)


def leave(database: "Database", dataset: "Dataset", scored: int) -> None:
    """Describe the data set of a search that ends, for those to come; nothing where it is done, or not worth it."""
    from detol.meta.descriptor import VERSION
    from detol.results import descriptors

    if scored < LEARNT:
        return
    with database.read() as connection:
        known = descriptors.bodies(connection, VERSION, [dataset.digest])
    if dataset.digest in known:
        return
    body = described(dataset).as_dict()
    database.write(lambda connection: descriptors.keep(connection, dataset.digest, VERSION, body))


def borne_out(database: "Database", search: str, trust: Sequence[float]) -> None:
    """Write down how far the results of a search bore each of its sources out."""
    from detol.results import descriptors

    if trust:
        database.write(lambda connection: descriptors.note_trust(connection, search, trust))


def said(sources: Sequence[WarmSource], known: Collection[str] = ()) -> str:
    """Return one line for people: what a search begins with, and which references it can leave out for that."""
    parts = [
        f"{source.facts.get('data_name') or source.data} ({len(source.records)} records of {source.search}, "
        f"weight {source.weight:.2f})"
        for source in sources
    ]
    left = f"; references that they know better ones than: {', '.join(sorted(known))}" if known else ""
    return f"warm start from {'; '.join(parts)}{left}"
