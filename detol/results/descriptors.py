"""What the database knows of data sets as figures, and which earlier records a search began with."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from detol.results.engine import insert_new
from detol.results.rows import clean, from_text, now, to_text
from detol.results.schema import data_sets, descriptors, searches, warm_sources
from detol.search.warm import WarmSource


def bodies(connection: sa.Connection, version: str, data: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the descriptors of a version, as JSON holds them, by the digest of the data set."""
    query = sa.select(descriptors.c.data, descriptors.c.body).where(
        descriptors.c.version == version, descriptors.c.data.in_(list(data))
    )
    return {digest: from_text(body) for digest, body in connection.execute(query)}


def keep(connection: sa.Connection, data: str, version: str, body: Mapping[str, Any]) -> None:
    """Write a descriptor down; one that is there already stays, unless it has no probes and the new one has."""
    row = {"data": data, "version": version, "body": to_text(dict(body)), "created": now()}
    here = (descriptors.c.data == data, descriptors.c.version == version)
    if body.get("probes"):
        before = connection.scalar(sa.select(descriptors.c.body).where(*here))
        if before is not None and not json.loads(before).get("probes"):
            connection.execute(descriptors.update().where(*here).values(body=row["body"]))
    connection.execute(insert_new(descriptors, connection.dialect.name), row)


def data_rows(connection: sa.Connection, data: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return name, kind, task, shape, outputs and description of data sets by digest."""
    query = sa.select(data_sets).where(data_sets.c.digest.in_(list(data)))
    return {
        row["digest"]: {
            **{name: row[name] for name in ("name", "kind", "task", "outputs")},
            "shape": tuple(from_text(row["shape"])),
            "description": from_text(row["description"]),
        }
        for row in connection.execute(query).mappings()
    }


def list_sources(connection: sa.Connection, search: str, sources: Sequence[WarmSource]) -> None:
    """List what a search began with; once, when it starts."""
    found = connection.scalar(sa.select(searches.c.id).where(searches.c.name == search))
    rows = [
        {
            "search": found,
            "slot": slot,
            "source_search": clean(source.search),
            "source_data": source.data,
            "weight": source.weight,
            "records": len(source.records),
            "facts": to_text(dict(source.facts)),
        }
        for slot, source in enumerate(sources)
    ]
    if rows:
        connection.execute(insert_new(warm_sources, connection.dialect.name), rows)


def note_trust(connection: sa.Connection, search: str, trust: Sequence[float]) -> None:
    """Write down how far the results of a search bore each of its sources out: a share, at the end of a run."""
    found = connection.scalar(sa.select(searches.c.id).where(searches.c.name == search))
    for slot, value in enumerate(trust):
        here = (warm_sources.c.search == found, warm_sources.c.slot == slot)
        facts = connection.scalar(sa.select(warm_sources.c.facts).where(*here))
        if facts is not None:
            changed = to_text({**from_text(facts), "borne_out": round(value, 4)})
            connection.execute(warm_sources.update().where(*here).values(facts=changed))


def sources_of(connection: sa.Connection, search: int) -> list[dict[str, Any]]:
    """Return what a search (by its id) began with: searches, data set, weight, records, and how near it was."""
    query = sa.select(warm_sources).where(warm_sources.c.search == search).order_by(warm_sources.c.slot)
    return [
        {
            "searches": row["source_search"],
            "data": row["source_data"],
            "weight": row["weight"],
            "records": row["records"],
            **from_text(row["facts"]),
        }
        for row in connection.execute(query).mappings()
    ]
