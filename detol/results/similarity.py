"""Which tried topologies are nearest to one, by an embedding, and what they scored."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from detol.embedding.embedders import Embedder
from detol.errors import UsageError
from detol.results import embeddings, places, schema
from detol.results.reader import SCORED
from detol.results.schema import data_sets, searches, trials
from detol.results.winner import COMPLETED_FIRST, SCRATCH_FIRST
from detol.search.records import parse_objective

if TYPE_CHECKING:
    from detol.results.store import Database


ALIKE = ("state", "objective", "recipe", "epochs")
"""What trainings of one topology on one data set have in common that are averaged."""


@dataclass(frozen=True)
class SimilarRow:
    """A topology on a data set, with its best trial there.

    Args:
        similarity: cosine of the two vectors, in [-1, 1]; 1 is the topology itself.
        digest: of the topology.
        trial: ``SEARCH/NUMBER`` of its best trial: completed before stopped, from scratch before inherited weights.
        metric: what ``value`` and ``mean`` are.
        value: of that trial, in the metric's natural direction.
        mean: over all trainings of its state, objective, recipe and epochs.
        n: how many those are; answers from the database are not counted again.
        state: of the best trial.
        space: it came from.
        data: name of the data set.
    """

    similarity: float
    digest: str
    trial: str
    metric: str
    value: float
    mean: float
    n: int
    state: str
    space: str
    data: str


def similar(
    database: "Database",
    ref: str,
    embedder: Embedder,
    *,
    data: str | None = None,
    space: str | None = None,
    limit: int = 10,
    progress: Callable[[int, int], None] | None = None,
) -> list[SimilarRow]:
    """Return the scored topologies nearest to one, nearest first, itself left out; a row for each data set.

    Args:
        database: where they are.
        ref: ``SEARCH/NUMBER``, a search (its best trial), or a digest or the first digits of one.
        embedder: whose vectors are compared; those that lack are computed and stored.
        data: name or digest of a data set: only what was scored on it.
        space: only from this one.
        limit: topologies at most, >= 1.
        progress: called while vectors are computed.

    Raises:
        ResultsError: nothing of that name.
        UsageError: a limit under 1.
    """
    if limit < 1:
        raise UsageError(f"--limit must be at least 1, got {limit}")
    with database.read() as connection:
        wanted = places.topology(connection, ref)
        which = _condition(connection, data, space)
        query = sa.select(trials.c.digest).join_from(trials, searches, searches.c.id == trials.c.search)
        digests = connection.scalars(query.where(which).distinct().order_by(trials.c.digest)).all()
    others = [digest for digest in digests if digest != wanted.digest]
    if not others:
        return []
    found = embeddings.vectors(database, [wanted.digest, *others], embedder, progress=progress)
    near = nearest(found[wanted.digest], {digest: found[digest] for digest in others}, limit)
    with database.read() as connection:
        return _rows(connection, near, which)


def among_stored(connection: sa.Connection, ref: str, embedder: Embedder, *, limit: int = 10) -> list[SimilarRow]:
    """Return what :func:`similar` does of the topologies whose vectors are stored; nothing is computed for others.

    For views, which may not write: what ``detol results similar`` has not embedded yet is not there.

    Raises:
        ResultsError: nothing of that name.
    """
    wanted = places.topology(connection, ref)
    which = _condition(connection, None, None)
    query = sa.select(trials.c.digest).join(schema.embeddings, schema.embeddings.c.digest == trials.c.digest)
    query = query.where(
        which, schema.embeddings.c.encoder == embedder.name, schema.embeddings.c.version == embedder.version
    )
    found = embeddings.stored(connection, connection.scalars(query.distinct()).all(), embedder)
    own = found.pop(wanted.digest, None)
    if not found:
        return []
    if own is None:
        own = embedder.embed([wanted.candidate.topology])[0]
    return _rows(connection, nearest(own, found, limit), which)


def nearest(one: embeddings.Floats, others: Mapping[str, embeddings.Floats], limit: int) -> list[tuple[str, float]]:
    """Return the ``limit`` most similar of others by cosine, with it; ties by name."""
    names = sorted(others)
    rows = np.stack([others[name] for name in names]).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1) * max(float(np.linalg.norm(one)), 1e-12)
    cosine = rows @ one.astype(np.float64) / np.maximum(lengths, 1e-12)
    order = np.argsort(-cosine.round(9), kind="stable")[:limit]
    return [(names[place], float(np.clip(cosine[place], -1, 1))) for place in order]


def _condition(connection: sa.Connection, data: str | None, space: str | None) -> "sa.ColumnElement[bool]":
    found: list[sa.ColumnElement[bool]] = [trials.c.state.in_(SCORED), trials.c.score.is_not(None)]
    if data is not None:
        found.append(trials.c.data == places.data_digest(connection, data))
    if space is not None:
        places.check_space(connection, space)
        found.append(searches.c.space == space)
    return sa.and_(*found)


def _rows(
    connection: sa.Connection, near: Sequence[tuple[str, float]], which: "sa.ColumnElement[bool]"
) -> list[SimilarRow]:
    query = (
        sa.select(
            *(trials.c[name] for name in ("digest", "data", "recipe", "epochs", "number", "state", "score", "reused")),
            searches.c.name,
            searches.c.space,
            searches.c.objective,
            data_sets.c.name.label("data_name"),
        )
        .join_from(trials, searches, searches.c.id == trials.c.search)
        .join(data_sets, data_sets.c.digest == trials.c.data)
        .where(trials.c.digest.in_([digest for digest, _ in near]), which)
        .order_by(COMPLETED_FIRST, SCRATCH_FIRST, trials.c.score.desc(), trials.c.search, trials.c.number)
    )
    groups: dict[tuple[str, str], list[sa.RowMapping]] = {}
    for row in connection.execute(query).mappings():
        groups.setdefault((row["digest"], row["data"]), []).append(row)
    found = []
    for digest, cosine in near:
        for (other, _), rows in groups.items():
            if other == digest:
                found.append(_row(cosine, rows))
    return found


def _row(cosine: float, rows: Sequence[sa.RowMapping]) -> SimilarRow:
    best = rows[0]
    objective = parse_objective(best["objective"] or "score")
    alike = [row for row in rows if all(row[name] == best[name] for name in ALIKE)]
    scores = [row["score"] for row in alike if not row["reused"]] or [best["score"]]
    return SimilarRow(
        similarity=cosine,
        digest=best["digest"],
        trial=f"{best['name']}/{best['number']}",
        metric=objective.metric,
        value=objective.score(best["score"]),
        mean=objective.score(math.fsum(scores) / len(scores)),
        n=len(scores),
        state=best["state"],
        space=best["space"],
        data=best["data_name"],
    )
