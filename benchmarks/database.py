"""The results database at scale: how quick its answers are, and whether it loses anything when much happens at once.

1. ``speed``: ``top`` and ``front`` over 1,000,000 epoch reports (100 searches, four data sets, a fifth of the trials
   trains a topology again with another seed), of everything, of a data set, a space and a search; SQLite and
   PostgreSQL. Each question on a connection of its own in a warm process; the whole command ``detol results top``
   apart, most of which is Python's start. Processor time of the asking process is given beside the time on the clock,
   since other work on the machine (``load``) shows in the latter alone; with PostgreSQL the server's is not in it.
   Aim: under 100 ms.
2. ``cluster``: two searches write to one PostgreSQL and ten processes read from it, for ten minutes; twice its server
   is killed with SIGKILL and comes back seconds later. The searches are whole controllers over one small space, so
   that they race for its topologies; scores are a function of decisions and epoch, and every report is made again
   afterwards and compared. Aim: no error, no report lost.

PostgreSQL is started here, where its programs are installed; otherwise its parts are left out.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from common import arguments, conclude, spread
from filled import fill
from postgres_server import PostgresServer, binaries

from detol.errors import ResultsError
from detol.results.query import Query
from detol.results.store import Database
from detol.results.verify import verify
from detol.results.weights import NoWeights
from detol.search.clock import RealClock
from detol.search.controller import Controller
from detol.search.limits import Limits
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Objective
from detol.search.task import Task
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.stopping.never import Never
from detol.strategies.random_search import RandomSearch
from detol.tracking.null import NullTracker

QUESTIONS: dict[str, Callable[[Query], list[Any]]] = {
    "top": lambda query: query.top(),
    "top_of_data": lambda query: query.top(data="data-1"),
    "top_of_space": lambda query: query.top(space="space-1"),
    "top_of_search": lambda query: query.top(search="search-7"),
    "front": lambda query: query.front(),
    "front_of_data": lambda query: query.front(data="data-2"),
    "front_of_search": lambda query: query.front(search="search-5"),
    "top_by_another_metric": lambda query: query.top(metric="val_log_loss"),
}
"""The last one is by a metric that no index holds: every trial is read."""
EPOCHS = 10
SPACE = DecisionSpace("symbols", [Choice(f"choice_{n}", ("a", "b", "c", "d")) for n in range(7)])
DATA = {"digest": "x1:made-up", "name": "made-up"}
PAUSE = 0.2
"""Seconds between two questions of a reader: a dashboard asks more rarely."""
AWAY = "away"
"""A file that says to the readers that the server is away, or was until a moment ago."""


def speed(where: str, reports: int, repeats: int) -> dict[str, Any]:
    """Fill a database and ask it; times in milliseconds."""
    with Database(where) as database:
        began = time.perf_counter()
        held = fill(database, reports * 5 // (4 * EPOCHS), EPOCHS)
        figures: dict[str, Any] = {"reports": held, "fill_seconds": round(time.perf_counter() - began, 1)}
    for name, ask in QUESTIONS.items():
        taken, busy = [], []
        for _ in range(repeats if "another" not in name else 3):
            with Database(where, create=False) as database:
                query = Query(database)
                began, before = time.perf_counter(), time.process_time()
                rows = ask(query)
                taken.append(1000 * (time.perf_counter() - began))
                busy.append(1000 * (time.process_time() - before))
        figures[f"{name}_ms"] = {**spread([round(each, 1) for each in taken]), "rows": len(rows)}
        figures[f"{name}_cpu_ms"] = spread([round(each, 1) for each in busy])
    command = [sys.executable, "-m", "detol", "results", "top", "--db", where, "--json"]
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(1000 * (time.perf_counter() - began))
    figures["command_top_ms"] = spread([round(each) for each in taken])
    figures["load"] = round(os.getloadavg()[0], 1)
    return figures


def score(decisions: Decisions, epoch: int) -> float:
    """Return a made-up accuracy that anybody can make again."""
    taken = sum((n + 1) * "abcd".index(str(option)) for n, option in enumerate(decisions.values()))
    return round((1 - 0.5**epoch) * (0.5 + taken / 200), 6)


def evaluate(candidate: Candidate) -> Iterator[dict[str, float]]:
    """Yield the reports of a trial."""
    for epoch in range(1, EPOCHS + 1):
        time.sleep(0.005)
        yield {"val_accuracy": score(candidate.decisions, epoch)}


def write(url: str, name: str, seconds: float, trials: float) -> None:
    """Run one search; say on standard output what it believes to have done."""
    from detol.execution.function import FunctionExecutor

    seed = sum(map(ord, name))
    objective = Objective("val_accuracy")
    limits = Limits(trials=trials, seconds=seconds)
    task = Task(SPACE, Recipe(), DATA["digest"], EPOCHS, [objective], seed=seed, limits=limits, references=False)
    with Database(url) as database:
        settings = {"space": SPACE.name, "objectives": ["val_accuracy"], "seed": seed, "epochs": EPOCHS}
        store = database.create_search(name, settings, DATA, task.recipe)
        outcome = Controller(
            task,
            strategy=RandomSearch(SPACE, seed=seed),
            stopper=Never(),
            executor=FunctionExecutor(evaluate, metric="val_accuracy"),
            store=store,
            tracker=NullTracker(),
            keeper=NoWeights(),
            clock=RealClock(),
        ).run()
        store.finish()
    tally = outcome.tally
    facts = {"trials": tally.trials, "trained": tally.trained, "reused": tally.reused, "epochs": tally.epochs}
    print(json.dumps({**facts, "failed": tally.failed, "ended": outcome.ended}))


def read(url: str, folder: Path) -> None:
    """Ask until the folder holds a file ``stop``; say how often, and what went wrong while the server was there."""
    asked, refused, errors = 0, 0, []
    asks = [
        lambda query: query.top(),
        lambda query: query.front(("score", "seconds")),
        lambda query: query.searches(),
        lambda query: query.stats(),
        lambda query: query.trials("writer-0", size=20),
        lambda query: query.top(search="writer-1"),
        lambda query: query.pulse(),
    ]
    with Database(url) as database:
        query = Query(database)
        while not (folder / "stop").exists():
            try:
                asks[asked % len(asks)](query)
                asked += 1
                time.sleep(PAUSE)
            except ResultsError as error:
                if (folder / AWAY).exists():
                    refused += 1
                    time.sleep(0.1)
                else:
                    errors.append(str(error))
    print(json.dumps({"asked": asked, "refused": refused, "errors": errors}))


def cluster(seconds: float, readers: int, *, trials: float = float("inf"), kills: int = 2) -> dict[str, Any]:
    """Let two searches write and others read; kill the server meanwhile; count what is there afterwards."""
    with PostgresServer() as server, tempfile.TemporaryDirectory(prefix="detol-cluster.") as folder:
        place = Path(folder)
        Database(server.url).close()
        writers = [_start("write", server.url, f"writer-{n}", str(seconds), str(trials)) for n in range(2)]
        _until(lambda: len(_names(server.url)) == 2, writers)
        asking = [_start("read", server.url, folder) for _ in range(readers)]
        began = time.monotonic()
        for number in range(kills):
            if trials == float("inf"):
                _until(lambda due=seconds * (number + 1) / (kills + 1): time.monotonic() - began > due, writers)
            else:  # by what is there: a busy machine takes its time
                _until(lambda due=trials * (number + 1) / (kills + 1): _count(server.url) > due, writers)
            (place / AWAY).touch()
            server.kill()
            time.sleep(5.0 if trials == float("inf") else 0.5)
            server.start()
            time.sleep(1.0)  # until those who were refused have heard of it
            (place / AWAY).unlink()
        done = [json.loads(process.communicate()[0].splitlines()[-1]) for process in writers]
        (place / "stop").touch()
        heard = [json.loads(process.communicate()[0].splitlines()[-1]) for process in asking]
        codes = [process.returncode for process in (*writers, *asking)]
        taken = round(time.monotonic() - began, 1)
        return {"seconds": taken, "kills": kills, "exit_codes": codes, **_compare(server.url, done, heard)}


def _start(role: str, *rest: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, __file__, "--role", role, *rest], stdout=subprocess.PIPE, text=True)


def _until(there: Callable[[], bool], processes: "list[subprocess.Popen[str]]") -> None:
    while not there():
        if all(process.poll() is not None for process in processes):
            return
        time.sleep(0.1)


def _names(url: str) -> list[str]:
    with Database(url) as database:
        return database.names()


def _count(url: str) -> int:
    with Database(url) as database:
        return min((row.trials for row in Query(database).searches()), default=0)


def _compare(url: str, done: list[dict[str, Any]], heard: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the searches believe, what the database holds, and which reports are missing or wrong."""
    lost, wrong, held = 0, 0, {"trials": 0, "epochs": 0}
    with Database(url) as database:
        for number, told in enumerate(done):
            found = database.open_search(f"writer-{number}", lock=False).trials()
            held["trials"] += len(found)
            held["epochs"] += sum(len(trial.reports) for trial in found if not trial.reused)
            lost += told["trials"] - len(found)
            lost += told["epochs"] - sum(len(trial.reports) for trial in found if not trial.reused)
            for trial in found:
                true = [score(trial.candidate.decisions, report.epoch) for report in trial.reports]
                wrong += [report.metrics["val_accuracy"] for report in trial.reports] != true
                wrong += [report.epoch for report in trial.reports] != list(range(1, len(trial.reports) + 1))
        faults = [f"{fault.where}: {fault.what}" for fault in verify(database).faults]
    errors = [error for each in heard for error in each["errors"]]
    return {
        "searches": done,
        "held": held,
        "lost": lost,
        "wrong": wrong,
        "faults": faults[:5],
        "asked": sum(each["asked"] for each in heard),
        "refused_while_away": sum(each["refused"] for each in heard),
        "errors": errors[:5],
        "error_count": len(errors),
    }


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", choices=["speed", "cluster"], help="one of the parts")
    parser.add_argument("--reports", type=int, help="epoch reports of the first part")
    parser.add_argument("--minutes", type=float, help="of the second part")
    parser.add_argument("--readers", type=int, default=10, help="processes of the second part that read")
    parser.add_argument("--trials", type=float, default=float("inf"), help="of each search, instead of minutes")
    parser.add_argument("--kills", type=int, default=2, help="of the server")
    parser.add_argument("--role", nargs="+", help="of the processes that this starts itself")
    given = parser.parse_args()
    if given.role:
        role, url, *rest = given.role
        if role == "write":
            write(url, rest[0], float(rest[1]), float(rest[2]))
        else:
            read(url, Path(rest[0]))
        return
    figures: dict[str, Any] = {"quick": given.quick}
    there = binaries() is not None
    if given.only != "cluster":
        reports, repeats = given.reports or (50_000 if given.quick else 1_000_000), 5 if given.quick else 20
        with tempfile.TemporaryDirectory(prefix="detol-speed.") as folder:
            figures["sqlite"] = speed(str(Path(folder) / "results.db"), reports, repeats)
        if there:
            with PostgresServer() as server:
                figures["postgresql"] = speed(server.url, reports, repeats)
    if given.only != "speed" and there:
        trials = 100.0 if given.quick and not given.minutes else given.trials
        seconds = float("inf") if trials < float("inf") else 60 * (given.minutes or 10)
        figures["cluster"] = cluster(seconds, given.readers, trials=trials, kills=given.kills)
    conclude(figures, given.json)


if __name__ == "__main__":
    main()
