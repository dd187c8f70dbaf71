"""Leases on trainings: while a search trains a topology, others wait for its result instead of training it, too.

A lease is a row of ``leases``. It is held until its search gives it back (in the transaction that holds the result), or
the search ends or its controller is known to be dead, or it expires: every commit of a search that is alive renews its
leases. So a controller that dies, on whatever machine, holds nobody up for longer than ``LEASE_SECONDS``.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from detol.errors import ResultsError
from detol.results import owner
from detol.results.engine import insert_new
from detol.results.schema import leases, searches
from detol.search.protocols import Held
from detol.search.records import Trial

if TYPE_CHECKING:
    from detol.results.changes import Place

_TRIES = 5

LEASE_SECONDS = 300.0
"""How long a lease lasts without being renewed: longer than any epoch between two commits should take."""

_KEY = [leases.c[name] == sa.bindparam(f"_{name}") for name in ("digest", "recipe", "data", "epochs")]
_OWNERS = ("owner", "host", "pid", "heartbeat")
_HELD = (
    sa.select(
        leases.c.owner.label("lessee"),
        leases.c.expires,
        leases.c.seed,
        searches.c.name,
        *(searches.c[name] for name in _OWNERS),
    )
    .join_from(leases, searches)
    .where(*_KEY)
)
_TAKE_OVER = leases.update().where(*_KEY, leases.c.owner == sa.bindparam("_owner"))
_GIVE = leases.delete().where(*_KEY, leases.c.owner == sa.bindparam("_owner"))


def take(connection: sa.Connection, place: "Place", token: str, trial: Trial, now: float) -> Held | None:
    """Take the lease on the training of a trial, in a writing transaction.

    Args:
        connection: to the database.
        place: the search, and its data and recipe.
        token: of the search's owner (see :mod:`detol.results.owner`).
        trial: what is going to be trained.
        now: seconds since 1970.

    Returns:
        The search that holds it, alive and in time; ``None``: it is taken.
    """
    moment = (place, token, trial, now)
    for _ in range(_TRIES):
        taken = _take(connection, *moment)
        if taken is not False:
            return None if taken is True else taken
    raise ResultsError(f"the lease on {trial.digest} changes hands all the time: try again")


def _take(connection: sa.Connection, place: "Place", token: str, trial: Trial, now: float) -> Held | bool:
    """Try once to take a lease: ``True`` for success, ``False`` when it changed hands meanwhile."""
    key = {"digest": trial.digest, "recipe": place.recipe, "data": place.data, "epochs": trial.epochs}
    mine = {
        "search": place.search,
        "number": trial.number,
        "seed": trial.seed,
        "owner": token,
        "expires": now + LEASE_SECONDS,
    }
    new = insert_new(leases, connection.dialect.name).returning(leases.c.search)
    if connection.execute(new, {**key, **mine}).first() is not None:
        return True
    bound = {f"_{name}": value for name, value in key.items()}
    row = connection.execute(_HELD, bound).mappings().first()
    if row is None:  # given back in between
        return False
    # Whoever runs that search by now may be another than the one that took the lease.
    in_time = row["lessee"] == row["owner"] and row["expires"] > now
    if row["lessee"] != token and in_time and owner.alive(row):
        return Held(str(row["name"]), int(row["seed"]))
    # Only from the one that was seen: of two that come at once, the second one finds the first.
    return connection.execute(_TAKE_OVER.values(**mine), {**bound, "_owner": row["lessee"]}).rowcount == 1


def give(connection: sa.Connection, place: "Place", token: str, trials: Iterable[Trial]) -> None:
    """Give back the leases on the trainings of these trials, those that are still held."""
    keys = [
        {"_digest": t.digest, "_recipe": place.recipe, "_data": place.data, "_epochs": t.epochs, "_owner": token}
        for t in trials
    ]
    if keys:
        connection.execute(_GIVE, keys)


def give_all(connection: sa.Connection, token: str) -> None:
    """Give back all leases of an owner."""
    connection.execute(leases.delete().where(leases.c.owner == token))


def renew(connection: sa.Connection, token: str, now: float) -> None:
    """Put off the end of all leases of an owner."""
    connection.execute(leases.update().where(leases.c.owner == token).values(expires=now + LEASE_SECONDS))
