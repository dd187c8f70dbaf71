"""What earlier searches know, by data set, recipe, schedule, objective and space: what a warm start is chosen from."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from detol.graph import codec
from detol.results.reader import ANSWERS
from detol.results.rows import from_text
from detol.results.schema import data_sets, recipes, searches, topologies, trials
from detol.search.warm import Experience, PastTrial
from detol.spaces.decisions import Decisions

MOST = 300
"""Trials of one experience that are read at most: half of them the best, the others evenly from the rest."""
FOREIGN = 100
"""The same of another space, whose topologies have to be read anew."""

_LEARNT = (
    trials.c.state.in_(ANSWERS),
    trials.c.score.is_not(None),
    trials.c.reused == "",
    trials.c.inherited == "",
)
"""Trained from scratch, ended, scored."""


def experiences(connection: sa.Connection, *, without: str = "", only: Sequence[str] = ()) -> list[Experience]:
    """Return what there is, without the trials; see :func:`with_trials`.

    Args:
        connection: to the database.
        without: digest of a data set that is left out.
        only: names of searches, if these alone are meant.
    """
    kinds = (searches.c.data, trials.c.recipe, trials.c.epochs, searches.c.objective, searches.c.space)
    query = (
        sa.select(*kinds, searches.c.name, sa.func.count().label("count"))
        .join_from(trials, searches)
        .where(*_LEARNT)
        .group_by(*kinds, searches.c.name)
        .order_by(searches.c.name)
    )
    if without:
        query = query.where(searches.c.data != without)
    if only:
        query = query.where(searches.c.name.in_(list(only)))
    names = {row.digest: row.name for row in connection.execute(sa.select(data_sets.c.digest, data_sets.c.name))}
    settings = {row.digest: row.settings for row in connection.execute(sa.select(recipes))}
    found: dict[tuple[str, str, int, str, str], Experience] = {}
    for data, recipe, epochs, objective, space, name, count in connection.execute(query):
        key = (data, recipe, epochs, objective, space)
        before = found.get(key)
        if before:
            found[key] = replace(before, searches=(*before.searches, name), count=before.count + count)
        else:
            known = from_text(settings.get(recipe, "{}"))
            found[key] = Experience(data, names.get(data, ""), (name,), space, objective, recipe, known, epochs, count)
    return list(found.values())


def with_trials(connection: sa.Connection, experience: Experience, *, foreign: bool = False) -> Experience:
    """Return an experience with its trials, the best and an even choice of the rest.

    Args:
        connection: to the database.
        experience: one of :func:`experiences`.
        foreign: whether the topologies are read too, as another space needs them.
    """
    mine = (
        *_LEARNT,
        searches.c.name.in_(experience.searches),
        searches.c.space == experience.space,
        searches.c.objective == experience.objective,
        searches.c.data == experience.data,
        trials.c.recipe == experience.recipe,
        trials.c.epochs == experience.epochs,
    )
    listed = (
        sa.select(trials.c.search, trials.c.number)
        .join_from(trials, searches)
        .where(*mine)
        .order_by(trials.c.score.desc(), trials.c.search, trials.c.number)
    )
    found = [(row.search, row.number) for row in connection.execute(listed)]
    places = _some(found, FOREIGN if foreign else MOST)
    columns = [trials.c.search, trials.c.number, trials.c.digest, trials.c.decisions, trials.c.score, searches.c.name]
    query = sa.select(*columns).join_from(trials, searches)
    if foreign:
        query = sa.select(*columns, topologies.c.body).join_from(trials, searches).join(topologies)
    rows = {}
    for search in dict.fromkeys(search for search, _ in places):
        numbers = [number for of, number in places if of == search]
        part = query.where(trials.c.search == search, trials.c.number.in_(numbers))
        rows.update({(row["search"], row["number"]): row for row in connection.execute(part).mappings()})
    read = []
    for place in places:
        row = rows[place]
        topology = codec.from_json(row["body"]) if foreign else None
        trial, decisions = f"{row['name']}/{row['number']}", Decisions(from_text(row["decisions"]))
        read.append(PastTrial(trial, row["digest"], decisions, row["score"], topology))
    return replace(experience, trials=tuple(read))


def _some(places: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """Return the first half of ``most``, and as many evenly from what follows."""
    if len(places) <= most:
        return list(places)
    rest = places[most // 2 :]
    evenly = np.linspace(0, len(rest) - 1, most - most // 2).astype(int)
    return [*places[: most // 2], *(rest[int(place)] for place in evenly)]
