"""A results database as searches leave it, the dashboard that shows it on a free port, and a browser that looks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detol.dashboards.web import serve
from detol.dashboards.web.app import make_app
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.query import Query
from detol.results.store import Database, SearchStore
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, Reported, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions

ODD = 'odd <script>document.title="owned"<i> & "x" \'y\' ..%2e {{ 7*7 }} <img src=x onerror=alert(1)>'
EPOCHS = 6
ARTIFACTS = Path(__file__).parents[3] / "artifacts" / "dashboard"


def trial(number: int, seed: int, before: list[Decisions], space: Any) -> Trial:
    """Make a trial as a search would leave it: sampled or mutated, completed, stopped, failed or refused."""
    rng = np.random.default_rng((seed, number))
    parents: tuple[int, ...] = ()
    origin, note = Origin.SAMPLE, ""
    if number == 0:
        (note, decisions), origin = next(iter(space.references.items())), Origin.REFERENCE
    elif rng.random() < 0.6:
        parents, origin = (int(rng.integers(number)),), Origin.MUTATE
        decisions = space.mutate(before[parents[0]], rng)
    else:
        decisions = space.sample(rng)
    before.append(decisions)
    states = (State.COMPLETED, State.COMPLETED, State.STOPPED, State.FAILED, State.REFUSED)
    state = states[number % len(states)]
    last = {State.COMPLETED: EPOCHS, State.STOPPED: 2}.get(state, 0)
    reason = {
        State.STOPPED: "Asha at epoch 2",
        State.FAILED: "ValueError: <b>bold</b> & so on",
        State.REFUSED: "over a limit",
    }
    level = 0.7 + 0.29 * rng.random()
    reports = tuple(
        Report(epoch, {"val_accuracy": level * (1 - 0.5**epoch), "val_loss": 2.0 * 0.7**epoch}, 0.25)
        for epoch in range(1, last + 1)
    )
    curve = tuple(report.metrics["val_accuracy"] for report in reports)
    return Trial(
        number,
        Candidate(decisions, space.decode(decisions), origin, parents, note),
        state,
        EPOCHS,
        seed=number,
        reports=reports,
        curve=curve,
        scores=(curve[-1],) if curve else None,
        reason=reason.get(state, ""),
        seconds=0.25 * last,
        extra={"device": "cpu", "worker": number % 2},
    )


def fill(database: Database, name: str, count: int, *, seed: int = 0, budget: int | None = None) -> SearchStore:
    space = catalogue.load("image_dag")
    settings = {
        "space": "image_dag",
        "strategy": "guided",
        "stop": "asha",
        "objectives": ["val_accuracy"],
        "seed": seed,
        "trials": budget or count,
        "epochs": EPOCHS,
    }
    described = {
        "digest": "x1:digits",
        "name": "digits",
        "kind": "image",
        "task": "classification",
        "shape": [1, 8, 8],
        "outputs": 10,
    }
    store = database.create_search(name, settings, described, Recipe())
    before: list[Decisions] = []
    for number in range(count):
        store.add(trial(number, seed, before, space))
    store.commit()
    return store


@dataclass
class Live:
    """A search that runs in this process: ``report`` lets one of its trials go on."""

    store: SearchStore
    trial: Trial

    def report(self, value: float) -> None:
        report = Report(self.trial.epoch + 1, {"val_accuracy": value, "val_loss": 1 - value}, 0.25)
        self.trial = replace(
            self.trial,
            reports=(*self.trial.reports, report),
            curve=(*self.trial.curve, value),
            scores=(value,),
            seconds=self.trial.seconds + 0.25,
        )
        self.store.record(self.trial, Reported(self.trial.number, report))
        self.store.commit()


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database(tmp_path_factory.mktemp("dashboard") / "results.db") as opened:
        fill(opened, "first", 120, seed=1).finish()
        fill(opened, ODD, 7, seed=2).finish()
        yield opened


@pytest.fixture(scope="session")
def live(database: Database) -> Live:
    store = fill(database, "live", 8, seed=3, budget=20)
    candidate = Candidate(Decisions(width=8), chain(op("conv", channels=8), op("pool")), Origin.SAMPLE)
    running = Trial(8, candidate, State.RUNNING, EPOCHS, seed=8)
    resting = replace(running, number=9, state=State.PAUSED)
    store.add(running)
    store.add(resting)
    store.commit()
    made = Live(store, running)
    made.report(0.5)
    return made


Serve = Callable[..., Any]


@contextmanager
def served(query: Query, **options: Any) -> Iterator[str]:
    """Serve the dashboard from a thread; yield its address, with a slash at the end."""
    with serve.listen("127.0.0.1", 0) as listening:
        server = serve.server(make_app(query, where="results.db", **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield serve.address(listening, "127.0.0.1")
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def site(database: Database, live: Live) -> Iterator[str]:
    with served(Query(database)) as address:
        yield address


@dataclass
class Visit:
    """A page in a browser; ``complaints``: errors on its console, scripts that failed, requests to elsewhere."""

    page: Any
    site: str
    complaints: list[str]

    def go(self, path: str) -> Any:
        self.page.goto(self.site + path.lstrip("/"))
        return self.page

    def shot(self, name: str, *, whole: bool = True) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=whole)


@pytest.fixture
def visit(browser: Any, site: str) -> Iterator[Callable[..., Visit]]:
    """Open a page of a size and colour scheme; at the end of the test nothing may have been complained about."""
    opened: list[tuple[Any, Visit]] = []

    def start(width: int = 1280, height: int = 800, scheme: str = "light", **options: Any) -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", **options
        )
        made = Visit(context.new_page(), site, [])
        made.page.set_default_timeout(20_000)
        made.page.on("console", lambda message: message.type == "error" and made.complaints.append(message.text))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.on(
            "request", lambda request: request.url.startswith(site) or made.complaints.append(f"asks {request.url}")
        )
        opened.append((context, made))
        return made

    yield start
    for context, made in opened:
        context.close()
        assert made.complaints == []
