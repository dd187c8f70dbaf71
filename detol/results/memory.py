"""The results database without a database: the same contract in memory, for tests and for searches nobody keeps."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from detol.errors import ResultsError, UsageError, unknown
from detol.graph.digest import same
from detol.graph.topology import Topology
from detol.results import describe
from detol.results.leases import LEASE_SECONDS
from detol.results.owner import BEAT_SECONDS
from detol.results.reader import answers, placed
from detol.results.rows import from_text, now, tellings, to_text
from detol.search.protocols import Held, Telling
from detol.search.recipe import Recipe
from detol.search.records import Event, State, Trial


@dataclass
class _Kept:
    """What of one search is committed."""

    settings: dict[str, Any]
    data: str
    recipe: str
    config_digest: str
    created: str
    state: str = "running"
    consumed: float = 0.0
    trials: dict[int, Trial] = field(default_factory=dict)
    numbers: dict[str, list[int]] = field(default_factory=dict)  # of the trials of each digest
    steps: list[tuple[int, tuple[Telling, ...]]] = field(default_factory=list)
    runner: "ref[MemoryStore] | None" = None


@dataclass
class _Lease:
    held: Held
    holder: "ref[MemoryStore]"
    until: float


class MemoryDatabase:
    """Searches in memory, with the methods of :class:`detol.results.store.Database` that make and open them.

    Args:
        clock: seconds by which leases expire; by default the machine's.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.searches: dict[str, _Kept] = {}
        self.leases: dict[tuple[str, str, str, int], _Lease] = {}
        self.clock = clock or (lambda: time.time())

    def create_search(
        self,
        name: str,
        settings: Mapping[str, Any],
        data: Mapping[str, Any],
        recipe: Recipe,
        *,
        config_digest: str = "",
    ) -> "MemoryStore":
        """Start the record of a new search; arguments and errors as for ``Database.create_search``."""
        describe.check_name(name)
        row = describe.search_columns(name, settings, data, recipe, config_digest)
        if name in self.searches:
            raise UsageError(f"a search named {name!r} exists already: take another --name")
        kept = from_text(row["settings"])
        self.searches[name] = _Kept(kept, row["data"], row["recipe"], row["config_digest"], now())
        return self.open_search(name)

    def open_search(self, name: str, *, lock: bool = True) -> "MemoryStore":
        """Open the record of a search as it was committed last.

        Raises:
            ResultsError: there is none of that name, or another store object that is alive runs it.
        """
        if name not in self.searches:
            raise unknown("search", name, self.searches, ResultsError)
        kept = self.searches[name]
        if lock and kept.runner is not None and kept.runner() is not None:
            raise ResultsError(f"search {name!r} is being run: close that store first")
        store = MemoryStore(name, database=self)
        if lock:
            kept.runner, kept.state = ref(store), "running"
        return store

    def names(self) -> list[str]:
        """Return the names of all searches, oldest first."""
        return list(self.searches)

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class MemoryStore:
    """One search in a :class:`MemoryDatabase`; keeps the contract of :class:`detol.search.protocols.Store`.

    ``MemoryStore()`` alone is a new search in a database of its own.

    Args:
        name: of the search.
        settings: its settings (JSON values).
        data: digest of its data.
        recipe: how its trials are trained.
        database: where it is; with it, the search must exist and the other arguments are not used.
    """

    def __init__(
        self,
        name: str = "memory",
        settings: Mapping[str, Any] | None = None,
        data: str = "none",
        recipe: Recipe | None = None,
        *,
        database: MemoryDatabase | None = None,
    ) -> None:
        self._database = database or MemoryDatabase()
        self._name = name
        if database is None:
            self._database.create_search(name, settings or {}, {"digest": data}, recipe or Recipe()).close()
            self._database.searches[name].runner = ref(self)
        self._kept = self._database.searches[name]
        self._changed: dict[int, Trial] = {}
        self._steps: list[tuple[int, tuple[Telling, ...]]] = []
        self._spent = 0.0
        self._released: list[tuple[str, str, str, int]] = []
        self._renewed = self._database.clock()

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def settings(self) -> dict[str, Any]:
        """Return its settings."""
        return dict(self._kept.settings)

    @property
    def data(self) -> str:
        """Digest of its data set."""
        return self._kept.data

    @property
    def recipe(self) -> str:
        """Digest of its recipe."""
        return self._kept.recipe

    @property
    def config_digest(self) -> str:
        """Equal for searches that would do the same."""
        return self._kept.config_digest

    @property
    def state(self) -> str:
        """``running``, ``finished`` or ``interrupted``."""
        return self._kept.state

    @property
    def created(self) -> str:
        """When it was created: UTC, ISO 8601."""
        return self._kept.created

    @property
    def consumed(self) -> float:
        """Consumed time in seconds, what is not committed yet included."""
        return self._kept.consumed + self._spent

    def _mine(self) -> bool:
        return self._kept.runner is not None and self._kept.runner() is self

    def _must_own(self) -> None:
        if not self._mine():
            raise ValueError(f"search {self._name!r} is open for reading only")

    def _keep(self, trial: Trial) -> None:
        if len(trial.curve) != len(trial.reports):
            raise ValueError(f"trial {trial.number} has {len(trial.reports)} reports and {len(trial.curve)} scores")
        self._changed[trial.number] = trial

    def _holds(self, number: int) -> bool:
        return number in self._kept.trials or number in self._changed

    def add(self, trial: Trial) -> None:
        """Record a new trial; ``ValueError`` when its number was given before."""
        self._must_own()
        if self._holds(trial.number):
            raise ValueError(f"trial {trial.number} of search {self._name!r} exists: a number is never given again")
        self._keep(trial)

    def record(self, trial: Trial, event: Event | None = None) -> None:  # noqa: ARG002  the trial holds what it brought
        """Record the new state of a trial; ``ValueError`` when there is none of its number."""
        self._must_own()
        if not self._holds(trial.number):
            raise ValueError(f"trial {trial.number} of search {self._name!r} was never added")
        self._keep(trial)

    def step(self, asked: int, told: Sequence[Telling]) -> None:
        """Log one step of the strategy."""
        self._must_own()
        self._steps.append((int(asked), tellings(told)))

    def spend(self, seconds: float) -> None:
        """Add to the consumed time of the search."""
        self._spent += seconds

    def commit(self) -> None:
        """Keep everything so far."""
        if not self._mine():
            return
        for number, trial in self._changed.items():
            if number not in self._kept.trials:
                self._kept.numbers.setdefault(trial.digest, []).append(number)
            if trial.state.final:
                trial.candidate.topology.forget()  # most of the memory of a search of 100,000 trials
            self._kept.trials[number] = trial
        self._kept.steps.extend(self._steps)
        self._kept.consumed += self._spent
        now = self._database.clock()
        held = self._database.leases
        for key in self._released:
            if key in held and held[key].holder() is self:
                del held[key]
        if now - self._renewed > BEAT_SECONDS:
            self._renewed = now
            for lease in self._database.leases.values():
                if lease.holder() is self:
                    lease.until = now + LEASE_SECONDS
        self._clear()

    def amend(self, **changes: Any) -> None:
        """Change settings for the rest of the search."""
        self._must_own()
        self._kept.settings = from_text(to_text({**self._kept.settings, **changes}))
        self.commit()

    def finish(self, state: str = "finished") -> None:
        """Commit, and say how the search ended (``finished`` or ``interrupted``)."""
        self._must_own()
        self.commit()
        self._kept.state, self._kept.runner = state, None
        self._give_back()

    def close(self) -> None:
        """Let others run the search as it was committed last; idempotent."""
        if self._mine():
            self._kept.runner = None
        self._give_back()
        self._clear()

    def _clear(self) -> None:
        self._changed, self._steps, self._spent = {}, [], 0.0
        self._released.clear()

    def trials(self) -> Sequence[Trial]:
        """Return all trials by number."""
        found = {**self._kept.trials, **self._changed}
        return [found[number] for number in sorted(found)]

    def steps(self) -> list[tuple[int, tuple[Telling, ...]]]:
        """Return the logged steps in order."""
        return self._kept.steps + self._steps

    def lease(self, trial: Trial) -> Held | None:
        """Take the lease on the training of a trial; return who holds it, if another search does."""
        self._must_own()
        key, leases, now = self._key(trial), self._database.leases, self._database.clock()
        held = leases.get(key)
        if held is not None and held.holder() not in (None, self) and held.until > now:
            return held.held
        leases[key] = _Lease(Held(self._name, trial.seed), ref(self), now + LEASE_SECONDS)
        return None

    def release(self, trial: Trial) -> None:
        """Give back the lease on the training of a trial at the next commit; idempotent."""
        held = self._database.leases.get(self._key(trial))
        if held is not None and held.holder() is self:
            self._released.append(self._key(trial))

    def _key(self, trial: Trial) -> tuple[str, str, str, int]:
        return trial.digest, self.recipe, self.data, trial.epochs

    def _give_back(self) -> None:
        """Give back all leases of this search."""
        held = self._database.leases
        for key in [key for key, lease in held.items() if lease.holder() is self]:
            del held[key]

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
        """Return finished scored trials of any search of the database; as ``SearchStore.known``."""
        found = []
        for name, kept in self._database.searches.items():
            if (kept.recipe, kept.data) != (recipe, data):
                continue
            trials = {number: kept.trials[number] for number in kept.numbers.get(digest, ())}
            if name == self._name:
                trials.update({n: trial for n, trial in self._changed.items() if trial.digest == digest})
            found += [
                placed(trial, name)
                for trial in trials.values()
                if (any_length or trial.epochs == epochs) and answers(trial, unfinished=unfinished)
            ]
        if topology is not None:
            found = [t for t in found if t.candidate.topology == topology or same(t.candidate.topology, topology)]
        return sorted(found, key=lambda t: (t.state is not State.COMPLETED, -t.epoch))

    def twin(self, config_digest: str) -> "MemoryStore | None":
        """Return the longest other search with this config digest, the newest of those, for reading."""
        others = [
            (len(kept.trials), place, name)
            for place, (name, kept) in enumerate(self._database.searches.items())
            if kept.config_digest == config_digest and name != self._name
        ]
        return self._database.open_search(max(others)[2], lock=False) if others else None
