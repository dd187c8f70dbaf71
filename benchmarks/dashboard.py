"""How long the dashboard takes over a large database: 10,000 trials with 200,000 reports (Reach 4 of issue 7).

The database is written through the store, as a search writes it; its topologies are sampled from ``image_dag``. The
server runs in this process, on one thread of its own; times are those of a client on the same machine, for the whole
answer. The first request of each page counts apart, since it also compiles the page's template.
"""

import http.client
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import arguments, conclude, spread

from detol.dashboards.web import serve
from detol.dashboards.web.app import make_app
from detol.results.query import Query
from detol.results.store import Database, SearchStore
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions

EPOCHS = 20
PAGES = {
    "searches": "/",
    "search": "/search?name=large",
    "search_sorted": "/search?name=large&sort=value&order=desc&page=7",
    "search_filtered": "/search?name=large&text=conv&state=completed",
    "trial": "/trial?ref=large/99",
    "compare": "/compare?a=large/98&b=large/99",
    "database": "/database",
    "api_trials": "/api/trials?search=large&size=100&sort=value&descending=true",
}


def fill(store: SearchStore, count: int) -> int:
    """Write ``count`` trials of ``EPOCHS`` reports each; return the number of reports."""
    space, rng = catalogue.load("image_dag"), np.random.default_rng(0)
    decided: list[Decisions] = []
    reports = 0
    for number in range(count):
        parents: tuple[int, ...] = ()
        if number and rng.random() < 0.7:
            parents = (int(rng.integers(number)),)
        decisions = space.mutate(decided[parents[0]], rng) if parents else space.sample(rng)
        decided.append(decisions)
        origin = Origin.MUTATE if parents else Origin.SAMPLE
        level = 0.99 - 0.3 * rng.random() ** 2
        values = level * (1 - 0.6 * np.exp(-np.arange(1, EPOCHS + 1) / 4))
        curve = tuple(float(value) for value in values)
        made = Trial(number, Candidate(decisions, space.decode(decisions), origin, parents), State.COMPLETED, EPOCHS)
        told = tuple(
            Report(epoch, {"val_accuracy": value, "val_loss": 1 - value, "train_loss": 1 - value}, 0.3)
            for epoch, value in enumerate(curve, start=1)
        )
        store.add(replace(made, reports=told, curve=curve, scores=(curve[-1],), seconds=6.0, seed=number))
        reports += len(told)
        if number % 200 == 199:
            store.commit()
    store.commit()
    return reports


def ask(port: int, path: str, tag: str = "") -> tuple[float, int, int, str]:
    """Return seconds, status, bytes and ETag of one request on a connection of its own."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began
    connection.close()
    return took, answer.status, len(body), answer.headers.get("ETag", "")


def main() -> None:
    """Measure, and print."""
    options = arguments(__doc__ or "").parse_args()
    count, repeats = (1_000, 3) if options.quick else (10_000, 10)
    with tempfile.TemporaryDirectory(prefix="detol-") as folder, Database(Path(folder) / "results.db") as database:
        settings = {"space": "image_dag", "strategy": "evolution", "objectives": ["val_accuracy"], "trials": count}
        described = {"digest": "x1:digits", "name": "digits", "kind": "image", "shape": [1, 8, 8], "outputs": 10}
        store = database.create_search("large", {**settings, "epochs": EPOCHS, "seed": 0}, described, Recipe())
        began = time.perf_counter()
        reports = fill(store, count)
        written = time.perf_counter() - began
        store.finish()
        figures: dict[str, object] = {}
        with serve.listen("127.0.0.1", 0) as listening:
            server = serve.server(make_app(Query(database)))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            port = listening.getsockname()[1]
            for name, path in PAGES.items():
                answers = [ask(port, path) for _ in range(repeats + 1)]
                assert all(status == 200 for _, status, _, _ in answers), (path, answers)
                again = ask(port, path, answers[-1][3]) if answers[-1][3] else (None, None, None, "")
                figures[name] = {
                    "first_seconds": answers[0][0],
                    "seconds": spread([seconds for seconds, *_ in answers[1:]]),
                    "bytes": answers[0][2],
                    "unchanged_seconds": again[0],
                }
            server.should_exit = True
            thread.join()
        size = (Path(folder) / "results.db").stat().st_size
    conclude(
        {
            "benchmark": "dashboard",
            "quick": options.quick,
            "trials": count,
            "reports": reports,
            "database_bytes": size,
            "seconds_to_write": written,
            "pages": figures,
        },
        options.json,
    )


if __name__ == "__main__":
    main()
