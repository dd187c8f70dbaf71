"""The record of one search in the database, as its controller writes it."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from detol.errors import ResultsError
from detol.graph.digest import same
from detol.graph.topology import Topology
from detol.results import leases, owner, reader
from detol.results.changes import Changes, Place
from detol.results.rows import from_text, now, tellings, to_text
from detol.results.schema import data_sets, searches, steps, trials
from detol.search.protocols import Held, Telling
from detol.search.records import Event, State, Trial

if TYPE_CHECKING:
    from detol.results.store import Database


def foreign(name: str, source: str) -> ResultsError:
    """Return the error for a search that was imported and is to be run."""
    return ResultsError(
        f"search {name!r} was imported from {source} and stays as it is: start a search of your own on the same data, "
        "its results are used there"
    )


class SearchStore:
    """One search in a :class:`~detol.results.store.Database`; made by its ``create_search`` and ``open_search``.

    Keeps the contract of :class:`detol.search.protocols.Store`. What is not committed lives in this object alone; a
    commit writes it in one short transaction. Memory does not grow with the number of trials: between commits it holds
    what changed, and the last written reports of the trials that run.

    Not for several threads; each search has its own.
    """

    def __init__(self, database: "Database", name: str) -> None:
        self._database = database
        self._name = name
        self._token = ""
        self._row: Mapping[str, Any] = {}
        self._highest = -1  # the highest number given so far
        self._steps_written = 0
        self._beat = 0.0
        self._leased = False  # whether it has taken a lease since it was opened
        self._renewed = time.time()
        self._released: list[Trial] = []
        self._changes = Changes()

    # -- opening and closing

    def load(self, token: str) -> None:
        """Read the state of the search; ``token`` is the owner's when this object runs it, or empty."""

        def read(connection: sa.Connection) -> tuple[dict[str, Any], int | None, int | None, str, int | None] | None:
            row = connection.execute(sa.select(searches).where(searches.c.name == self._name)).mappings().first()
            if row is None:
                return None
            mine = trials.c.search == row["id"]
            highest = connection.scalar(sa.select(sa.func.max(trials.c.number)).where(mine))
            last = connection.scalar(sa.select(sa.func.max(steps.c.number)).where(steps.c.search == row["id"]))
            query = sa.select(data_sets.c.shape, data_sets.c.outputs).where(data_sets.c.digest == row["data"])
            shape, outputs = connection.execute(query).one()
            return dict(row), highest, last, shape, outputs

        found = self._database.ask(read)
        if found is None:
            raise self._database.missing(self._name)
        row, highest, last, shape, outputs = found
        self._row, self._token = row, token
        self._place = Place(row["id"], row["data"], row["recipe"], tuple(from_text(shape)), outputs)
        self._highest = -1 if highest is None else highest
        self._steps_written = 0 if last is None else last + 1

    def take(self) -> None:
        """Run the search from now on.

        Raises:
            ResultsError: no such search, a controller that is alive runs it, or it is another person's.
        """
        claim = owner.claim(self)

        def take(connection: sa.Connection) -> bool:
            query = sa.select(searches).where(searches.c.name == self._name).with_for_update()
            row = connection.execute(query).mappings().first()
            if row is None:
                return False
            if row["source"]:
                raise foreign(self._name, row["source"])
            if row["owner"] != claim["owner"] and owner.alive(row):  # ours: the answer to an earlier try was lost
                raise ResultsError(
                    f"search {self._name!r} is being run by process {row['pid']} on {row['host']}: "
                    "stop that one first, or watch it with detol status"
                )
            change = searches.update().where(searches.c.id == row["id"])
            connection.execute(change.values(**claim, state="running", ended=""))
            return True

        if not self._database.write(take):
            raise self._database.missing(self._name)
        self.load(claim["owner"])

    def finish(self, state: str = "finished") -> None:
        """Commit, say how the search ended (``finished`` or ``interrupted``), and let others run it."""
        self._must_own()
        self._commit({"state": state, "ended": now(), **owner.release(self._token)})
        self._row = {**self._row, "state": state}
        self._token = ""

    def close(self) -> None:
        """Let others run the search as it was committed last; what was not is lost. Idempotent."""
        if self._token:
            change = searches.update().where(searches.c.id == self._row["id"], searches.c.owner == self._token)

            def close(connection: sa.Connection) -> None:
                connection.execute(change.values(**owner.release(self._token)))
                leases.give_all(connection, self._token)

            self._database.write(close)
            self._token = ""
        self._released.clear()
        self._changes.forget()

    # -- what the search is

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings it was created with (as JSON holds them: tuples are lists)."""
        return dict(from_text(self._row["settings"]))

    @property
    def source(self) -> str:
        """Who it was imported from; empty for our own."""
        return str(self._row["source"])

    @property
    def data(self) -> str:
        """Digest of its data set."""
        return str(self._row["data"])

    @property
    def recipe(self) -> str:
        """Digest of its recipe."""
        return str(self._row["recipe"])

    @property
    def config_digest(self) -> str:
        """Equal for searches that would do the same."""
        return str(self._row["config_digest"])

    @property
    def state(self) -> str:
        """``running``, ``finished`` or ``interrupted``, as it was when opened or finished here."""
        return str(self._row["state"])

    @property
    def created(self) -> str:
        """When it was created: UTC, ISO 8601."""
        return str(self._row["created"])

    @property
    def consumed(self) -> float:
        """Consumed time in seconds, what is not committed yet included."""
        return float(self._row["consumed"]) + self._changes.spent

    def amend(self, **changes: Any) -> None:
        """Change settings for the rest of the search (more trials, other limits); durable at once."""
        self._must_own()
        settings = {**self.settings, **changes}
        columns: dict[str, Any] = {"settings": to_text(settings)}
        columns |= {key: changes[key] for key in ("trials", "epochs") if key in changes}
        self._commit(columns)
        self._row = {**self._row, **columns}

    # -- writing

    def add(self, trial: Trial) -> None:
        """Record a new trial.

        Raises:
            ValueError: its number was given before, or its curve is not as long as its reports.
        """
        self._must_own()
        if self._holds(trial.number):
            raise ValueError(f"trial {trial.number} of search {self._name!r} exists: a number is never given again")
        self._keep(trial)
        self._changes.births.add(trial.number)
        self._highest = max(self._highest, trial.number)

    def record(self, trial: Trial, event: Event | None = None) -> None:  # noqa: ARG002  the trial holds what it brought
        """Record the new state of a trial; its reports are stored as the trial holds them, each once.

        Raises:
            ValueError: there is no trial of that number, or its curve is not as long as its reports.
        """
        self._must_own()
        if not self._holds(trial.number):
            raise ValueError(f"trial {trial.number} of search {self._name!r} was never added")
        self._keep(trial)

    def step(self, asked: int, told: Sequence[Telling]) -> None:
        """Log one step of the strategy: it was told these trials, then asked for so many (0: not asked)."""
        self._must_own()
        self._changes.steps.append((int(asked), tellings(told)))

    def spend(self, seconds: float) -> None:
        """Add to the consumed time of the search."""
        self._changes.spent += seconds

    def commit(self) -> None:
        """Make everything so far durable, all or nothing; refreshes the heartbeat (call it while waiting, too).

        Raises:
            ResultsError: the database cannot be written, or another controller has taken the search over.
        """
        if self._token and (self._changes or time.time() - self._beat > owner.BEAT_SECONDS):
            self._commit({})

    def _keep(self, trial: Trial) -> None:
        if len(trial.curve) != len(trial.reports):
            raise ValueError(f"trial {trial.number} has {len(trial.reports)} reports and {len(trial.curve)} scores")
        self._changes.trials[trial.number] = trial

    def _must_own(self) -> None:
        if not self._token:
            raise ValueError(f"search {self._name!r} is open for reading only")

    def _holds(self, number: int) -> bool:
        if number > self._highest:
            return False
        if number in self._changes.trials or number in self._changes.written:
            return True
        query = sa.select(trials.c.number).where(trials.c.search == self._row["id"], trials.c.number == number)
        return self._database.ask(lambda connection: connection.scalar(query)) is not None

    def _commit(self, columns: Mapping[str, Any]) -> None:
        beat, tried = time.time(), 0

        def write(connection: sa.Connection) -> None:
            nonlocal tried
            tried += 1
            if tried == 1 or not self._landed(connection, beat):
                self._write(connection, {"heartbeat": beat, **columns})

        try:
            self._database.write(write)
        except BaseException:  # an interrupt or a lost connection may hide that it is written
            with suppress(ResultsError), self._database.read() as connection:
                if self._landed(connection, beat):
                    self._settle(beat)
            raise
        self._settle(beat)

    def _landed(self, connection: sa.Connection, beat: float) -> bool:
        """Return whether the commit of this heartbeat is in the database: written twice, its rows would clash."""
        return connection.scalar(sa.select(searches.c.heartbeat).where(searches.c.id == self._row["id"])) == beat

    def _settle(self, beat: float) -> None:
        self._beat = beat
        self._released.clear()
        if beat - self._renewed > owner.BEAT_SECONDS:
            self._renewed = beat
        self._steps_written += len(self._changes.steps)
        self._row = {**self._row, "consumed": self.consumed}
        self._changes.done()

    def _write(self, connection: sa.Connection, columns: Mapping[str, Any]) -> None:
        mine = searches.update().where(searches.c.id == self._row["id"], searches.c.owner == self._token)
        change = mine.values(consumed=searches.c.consumed + self._changes.spent, **columns)
        if connection.execute(change).rowcount != 1:
            raise ResultsError(f"search {self._name!r} was taken over by another controller: this one stops writing")
        self._changes.write(connection, self._place, self._steps_written)
        if self._leased:
            leases.give(connection, self._place, self._token, self._released)
            if "owner" in columns:
                leases.give_all(connection, self._token)
            elif time.time() - self._renewed > owner.BEAT_SECONDS:
                leases.renew(connection, self._token, time.time())

    # -- reading

    def trials(self) -> Sequence[Trial]:
        """Return all trials of this search by number, what is not committed yet included."""
        search = self._row["id"]
        found = self._database.ask(lambda connection: {t.number: t for t in reader.all_trials(connection, search)})
        found.update(self._changes.trials)
        return [found[number] for number in sorted(found)]

    def steps(self) -> list[tuple[int, tuple[Telling, ...]]]:
        """Return the logged steps in order: how many were asked for after which trials were told."""
        query = sa.select(steps.c.asked, steps.c.told).where(steps.c.search == self._row["id"])
        rows = self._database.ask(lambda connection: connection.execute(query.order_by(steps.c.number)).all())
        return [(asked, tellings(from_text(told))) for asked, told in rows] + self._changes.steps

    def lease(self, trial: Trial) -> Held | None:
        """Take the lease on the training of a trial, durable at once; return who holds it, if another search does.

        Raises:
            ResultsError: the database cannot be written.
        """
        self._must_own()
        place, moment = self._place, time.time()

        def take(connection: sa.Connection) -> Held | None:
            return leases.take(connection, place, self._token, trial, moment)

        held = self._database.write(take)
        if held is None:
            self._leased = True
        return held

    def release(self, trial: Trial) -> None:
        """Give back the lease on the training of a trial at the next commit; idempotent."""
        if self._leased:
            self._released.append(trial)

    def known(
        self,
        digest: str,
        recipe: str,
        data: str,
        epochs: int,
        topology: Topology | None = None,
        *,
        unfinished: bool = False,
        any_length: bool = False,
    ) -> Sequence[Trial]:
        """Return finished scored trials of any search with this topology, recipe, data and schedule length.

        Args:
            digest: of the topology.
            recipe: digest.
            data: digest.
            epochs: length of the schedule.
            topology: what ``digest`` is of. When given, a hit is confirmed by an exact isomorphism, so that even two
                networks whose digests collide are never mixed.
            unfinished: whether those that rest count as well.
            any_length: whether schedules of other lengths do.

        Returns:
            Trained trials alone (not those that were answered themselves); ``reused`` of each says where it stands.
            Completed ones come first, then by epochs trained, most first.
        """
        found = self._database.ask(
            lambda connection: reader.known(
                connection, digest, recipe, data, epochs, unfinished=unfinished, any_length=any_length
            )
        )
        if (recipe, data) == (self.recipe, self.data):
            found = self._with_changed(found, digest, None if any_length else epochs, unfinished=unfinished)
        if topology is not None:
            found = [t for t in found if t.candidate.topology == topology or same(t.candidate.topology, topology)]
        return sorted(found, key=lambda t: (t.state is not State.COMPLETED, -t.epoch))

    def _with_changed(self, found: list[Trial], digest: str, epochs: int | None, *, unfinished: bool) -> list[Trial]:
        own = {f"{self._name}/{number}" for number in self._changes.trials}
        found = [trial for trial in found if trial.reused not in own]
        return found + [
            reader.placed(trial, self._name)
            for trial in self._changes.trials.values()
            if trial.digest == digest
            and epochs in (None, trial.epochs)
            and reader.answers(trial, unfinished=unfinished)
        ]

    def twin(self, config_digest: str) -> "SearchStore | None":
        """Return the longest other search with this config digest, the newest of those, open for reading."""
        query = (
            sa.select(searches.c.name)
            .outerjoin_from(searches, trials)
            .where(searches.c.config_digest == config_digest, searches.c.id != self._row["id"])
            .group_by(searches.c.id, searches.c.name)
            .order_by(sa.func.count(trials.c.number).desc(), searches.c.id.desc())
            .limit(1)
        )
        name = self._database.ask(lambda connection: connection.scalar(query))
        return None if name is None else self._database.open_search(name, lock=False)
