"""What a person calls a result: a search, a trial of it, or a topology by its digest."""

import re
from dataclasses import dataclass

import sqlalchemy as sa

from detol.errors import ResultsError, unknown
from detol.results.reader import one_trial
from detol.results.schema import data_sets, searches, trials
from detol.results.winner import winner
from detol.search.records import Trial

_TRIAL = re.compile(r"(?P<search>[^/]+)/(?P<number>\d{1,9})")
_DIGEST = re.compile(r"(?:[a-z]\d+:)?[0-9a-f]{4,}")
_SHOWN = 5


@dataclass(frozen=True)
class Found:
    """A trial and the search it belongs to."""

    search: str
    search_id: int
    trial: Trial

    @property
    def ref(self) -> str:
        """``SEARCH/NUMBER``."""
        return f"{self.search}/{self.trial.number}"


def search_id(connection: sa.Connection, name: str) -> int:
    """Return the id of a search; ``ResultsError`` with near names when there is none."""
    found = connection.scalar(sa.select(searches.c.id).where(searches.c.name == name))
    if found is None:
        raise unknown("search", name, connection.scalars(sa.select(searches.c.name)), ResultsError)
    return int(found)


def find(connection: sa.Connection, ref: str, data: str | None = None) -> Found:
    """Return the trial that ``SEARCH/NUMBER`` names, or the best one of a search or a topology.

    A completed trial is better than one that was stopped, and one trained from scratch than one that started from
    another's weights, whatever their scores.

    Args:
        connection: to the database.
        ref: ``SEARCH/NUMBER``, the name of a search, a digest or the first four or more digits of one.
        data: name or digest of the data set, for a topology that was tried on several.

    Raises:
        ResultsError: nothing of that name, nothing with a score, several topologies, or several data sets.
    """
    match = _TRIAL.fullmatch(ref)
    if match:
        return _get(connection, search_id(connection, match["search"]), match["search"], int(match["number"]))
    named = connection.scalar(sa.select(searches.c.id).where(searches.c.name == ref))
    if named is not None:
        return _best(connection, trials.c.search == named, f"search {ref!r}")
    if not _DIGEST.fullmatch(ref):
        search_id(connection, ref)  # raises with near names
    digest = _digest(connection, ref)
    which = trials.c.digest == digest
    if data is not None:
        which = sa.and_(which, trials.c.data == data_digest(connection, data))
    query = sa.select(data_sets.c.name).join_from(trials, data_sets).where(which)
    sets = connection.scalars(query.distinct().order_by(data_sets.c.name)).all()
    if len(sets) > 1:
        raise ResultsError(
            f"topology {digest} was tried on {len(sets)} data sets ({', '.join(sets[:_SHOWN])}): "
            "say which with --data, or name a trial as SEARCH/NUMBER"
        )
    return _best(connection, which, f"topology {digest}")


def topology(connection: sa.Connection, ref: str) -> Trial:
    """Return a trial whose topology is meant: as :func:`find`, but a digest needs no score and no choice of data.

    Raises:
        ResultsError: nothing of that name, a search without a score, or several topologies.
    """
    named = sa.exists(sa.select(searches.c.id).where(searches.c.name == ref))
    if _TRIAL.fullmatch(ref) or connection.scalar(sa.select(named)) or not _DIGEST.fullmatch(ref):
        return find(connection, ref).trial
    query = (
        sa.select(trials.c.search, searches.c.name, trials.c.number)
        .join_from(trials, searches)
        .where(trials.c.digest == _digest(connection, ref))
        .order_by(trials.c.search, trials.c.number)
        .limit(1)
    )
    search, name, number = connection.execute(query).one()
    return _get(connection, search, name, number).trial


def data_digest(connection: sa.Connection, data: str) -> str:
    """Return the digest of a data set by its name or digest; ``ResultsError`` with near names if unknown.

    Of several with that name: the one searched last, ours before imported ones.
    """
    own = sa.case((searches.c.source == "", searches.c.id), else_=0)
    query = (
        sa.select(data_sets.c.digest)
        .outerjoin_from(data_sets, searches, searches.c.data == data_sets.c.digest)
        .where(sa.or_(data_sets.c.digest == data, data_sets.c.name == data))
        .group_by(data_sets.c.digest)
        .order_by(sa.func.max(own).desc(), sa.func.max(searches.c.id).desc())
    )
    found = connection.scalar(query.limit(1))
    if found is None:
        raise unknown("data set", data, connection.scalars(sa.select(data_sets.c.name)), ResultsError)
    return str(found)


def check_space(connection: sa.Connection, space: str) -> None:
    """Refuse a space that no search has: ``ResultsError`` with near names."""
    names = connection.scalars(sa.select(searches.c.space).distinct()).all()
    if space not in names:
        raise unknown("space", space, names, ResultsError)


def trained(connection: sa.Connection, found: Found) -> Found:
    """Return the trial that was trained: the trial itself, or the one that answered it."""
    while found.trial.reused:
        name, _, number = found.trial.reused.rpartition("/")
        found = _get(connection, search_id(connection, name), name, int(number))
    return found


def _get(connection: sa.Connection, search: int, name: str, number: int) -> Found:
    trial = one_trial(connection, search, number)
    if trial is None:
        count = connection.scalar(sa.select(sa.func.count()).where(trials.c.search == search))
        raise ResultsError(
            f"search {name!r} has no trial {number}: it has {count}, see detol results top --search {name}"
        )
    return Found(name, search, trial)


def _best(connection: sa.Connection, which: "sa.ColumnElement[bool]", what: str) -> Found:
    best = winner(connection, which)
    if best is None:
        raise ResultsError(f"{what} has no trial with a score yet")
    return _get(connection, best.search, best.name, best.number)


def _digest(connection: sa.Connection, prefix: str) -> str:
    query = sa.select(trials.c.digest).distinct().order_by(trials.c.digest).limit(_SHOWN + 1)
    start = trials.c.digest.startswith(prefix, autoescape=True)
    if ":" not in prefix:  # without the version
        start = trials.c.digest.contains(f":{prefix}", autoescape=True)
    found = connection.scalars(query.where(start)).all()
    if not found:
        raise ResultsError(f"there is no search and no topology {prefix!r}: see detol results top, or detol status")
    if len(found) > 1 and prefix not in found:
        raise ResultsError(f"{prefix!r} begins several topologies ({', '.join(found[:_SHOWN])}): give more digits")
    return prefix if prefix in found else found[0]
