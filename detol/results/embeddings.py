"""Stored embeddings of topologies: looked up by digest, encoder and version, computed where they lack.

A vector of another version is not read; when a topology is embedded anew, those of its older versions go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from detol.embedding.embedders import Embedder
from detol.errors import ResultsError
from detol.graph import codec
from detol.graph.topology import Topology
from detol.results import engine
from detol.results.schema import embeddings, topologies

if TYPE_CHECKING:
    from detol.results.store import Database

Floats: TypeAlias = NDArray[np.float32]

CHUNK = 500
"""Digests of one statement, and topologies that are embedded between two writes."""


def stored(connection: sa.Connection, digests: Iterable[str], embedder: Embedder) -> dict[str, Floats]:
    """Return what is stored of some topologies under an embedder's name and version, by digest."""
    found: dict[str, Floats] = {}
    for some in _chunks(list(digests)):
        query = sa.select(embeddings.c.digest, embeddings.c.vector).where(
            embeddings.c.digest.in_(some),
            embeddings.c.encoder == embedder.name,
            embeddings.c.version == embedder.version,
        )
        found |= {digest: np.frombuffer(vector, "<f4") for digest, vector in connection.execute(query)}
    return found


def keep(connection: sa.Connection, vectors: Mapping[str, Floats], embedder: Embedder) -> None:
    """Store vectors by digest; vectors of these topologies by other versions of the same embedder are removed."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for some in _chunks(list(vectors)):
        old = sa.and_(embeddings.c.digest.in_(some), embeddings.c.encoder == embedder.name)
        connection.execute(embeddings.delete().where(old, embeddings.c.version != embedder.version))
        rows = [
            {
                "digest": digest,
                "encoder": embedder.name,
                "version": embedder.version,
                "vector": np.ascontiguousarray(vectors[digest], "<f4").tobytes(),
                "created": now,
            }
            for digest in some
        ]
        connection.execute(engine.insert_new(embeddings, connection.dialect.name), rows)


def vectors(
    database: "Database",
    digests: Sequence[str],
    embedder: Embedder,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Floats]:
    """Return the vectors of topologies of the database by digest; those that lack are computed and stored.

    A database that cannot be written to is no error: what is computed then is computed again the next time.

    Args:
        database: holds the topologies.
        digests: of them.
        embedder: whose vectors.
        progress: called with how many of how many were computed.
    """
    wanted = list(dict.fromkeys(digests))
    with database.read() as connection:
        found = stored(connection, wanted, embedder)
    lacking = [digest for digest in wanted if digest not in found]
    done, writing = 0, True
    for some in _chunks(lacking):
        with database.read() as connection:
            read = bodies(connection, some)
        made = dict(zip(read, embedder.embed(list(read.values())), strict=True))
        found |= made
        done += len(some)
        if progress is not None:
            progress(done, len(lacking))
        if writing:
            writing = _kept(database, made, embedder)
    return found


def bodies(connection: sa.Connection, digests: Sequence[str]) -> dict[str, Topology]:
    """Return a topology of each digest; of isomorphic forms one."""
    form = (
        sa.select(sa.func.min(topologies.c.key)).where(topologies.c.digest.in_(digests)).group_by(topologies.c.digest)
    )
    query = sa.select(topologies.c.digest, topologies.c.body).where(topologies.c.key.in_(form))
    return {digest: codec.from_json(body) for digest, body in connection.execute(query)}


def _kept(database: "Database", made: Mapping[str, Floats], embedder: Embedder) -> bool:
    try:
        database.write(lambda connection: keep(connection, made, embedder))
    except ResultsError:
        return False
    return True


def _chunks(items: Sequence[str]) -> Iterable[Sequence[str]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
