"""How fast finished trials reach MLflow, through the mirror process: runs per second, and whether all arrived once.

1. ``sqlite``: 1,000 finished trials of 5 epochs into a SQLite file.
2. ``server``: into an MLflow server on this machine (``mlflow server``, SQLite behind it), which costs one request for
   each call.
3. ``two``: two searches at once into one SQLite file, half of the trials each.
4. ``sync``: the server is stopped in the middle of a mirror and started again; `detol track sync` writes the rest.

Each reads MLflow back: a run missing, doubled or not whole is an error. The clock starts with the first trial recorded
(the mirror process starts then) and stops when ``close`` returns. ``start`` is the same with one trial: the imports of
MLflow and the tables of a new database, which ``runs_per_second`` counts too and ``steady`` does not. ``cpu_ms`` is the
processor time of the mirror for each run, which other load on the machine does not change.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import arguments, conclude

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions
from detol.tracking.process import ENVIRONMENT
from detol.tracking.sync import sync
from detol.tracking.tracker import MlflowTracker

EPOCHS = 5
DATA = {"name": "made", "digest": "x1:0", "task": "classification", "shape": [3, 8, 8], "dtype": "uint8"}


def trials(count: int) -> list[Trial]:
    """Return finished trials, each of a topology of its own."""
    found = []
    for number in range(count):
        topology = chain(op("conv", channels=4 + number % 60), op("pool"), op("conv", kernel=1 + 2 * (number % 4)))
        candidate = Candidate(Decisions(width=4 + number, pool="avg", kernel=3), topology, Origin.SAMPLE)
        reports = tuple(
            Report(
                epoch,
                {"val_accuracy": (number % 97 + epoch) / 200, "val_loss": 1 / epoch, "train_loss": 2 / epoch},
                0.5,
            )
            for epoch in range(1, EPOCHS + 1)
        )
        curve = tuple(report.metrics["val_accuracy"] for report in reports)
        made = Trial(number, candidate, State.COMPLETED, EPOCHS, reports=reports, curve=curve, scores=curve[-1:])
        found.append(made)
    return found


@contextlib.contextmanager
def server(folder: Path, port: int) -> Iterator[str]:
    """Run ``mlflow server`` over ``folder``; it is up when the block begins and dead when it ends."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    process = subprocess.Popen(
        command + store,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Uvicorn running" in line:
            break
    log = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)  # or the pipe would fill up
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        log.wait()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def mirrored(uri: str, searches: dict[str, list[Trial]]) -> tuple[float, float]:
    """Mirror finished trials; return the seconds until all mirrors had everything, and their processor seconds."""
    trackers = {
        name: MlflowTracker(uri, name, {"space": "made"}, objectives=[Objective("val_accuracy")], data=DATA)
        for name in searches
    }
    began, busy = time.perf_counter(), processor_seconds()
    for name, some in searches.items():
        for trial in some:
            trackers[name].record(trial, None)
        trackers[name].finish(max(some, key=lambda trial: trial.score), {"trials": len(some)})
    for tracker in trackers.values():
        tracker.close()
    seconds = time.perf_counter() - began
    for tracker in trackers.values():
        if tracker.behind:
            raise SystemExit(f"{tracker.behind} trials were not written")
    return seconds, processor_seconds() - busy


def processor_seconds() -> float:
    """Return the processor seconds of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(uri: str, name: str, expected: list[Trial]) -> None:
    """Read a search back from MLflow; anything but each trial once and whole ends the benchmark."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("detol")
    assert experiment is not None
    runs: list[Any] = []
    token: str | None = None
    while token is not None or not runs:
        page = client.search_runs([experiment.experiment_id], f"tags.`detol.search` = '{name}'", page_token=token)
        runs.extend(page)
        token = page.token
        if not token:
            break
    parents = [run for run in runs if run.data.tags["detol.kind"] == "search"]
    children = {int(run.data.tags["detol.trial"]): run for run in runs if run.data.tags["detol.kind"] == "trial"}
    problems = [
        len(parents) != 1 and f"{len(parents)} parents",
        len(runs) - len(parents) != len(expected) and f"{len(runs) - len(parents)} children for {len(expected)} trials",
        sorted(children) != [trial.number for trial in expected] and "other trials",
        any(run.info.status != "FINISHED" for run in children.values()) and "runs that are not finished",
        any(run.data.tags["mlflow.parentRunId"] != parents[0].info.run_id for run in children.values())
        and "not nested",
        any(
            children[trial.number].data.metrics["val_accuracy"] != trial.reports[-1].metrics["val_accuracy"]
            for trial in expected
            if trial.number in children
        )
        and "other metrics",
    ]
    wrong = [problem for problem in problems if problem]
    if wrong:
        raise SystemExit(f"MLflow does not show search {name} as it is: {', '.join(map(str, wrong))}")


def interrupted(folder: Path, some: list[Trial]) -> dict[str, Any]:
    """Stop the server in the middle of a mirror, start it again, and synchronise."""
    port = free_port()
    half = len(some) // 2
    said: list[str] = []
    with server(folder, port) as uri:
        tracker = MlflowTracker(uri, "cut", {"space": "made"}, data=DATA, warn=said.append)
        for trial in some[:half]:
            tracker.record(trial, None)
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=uri)
        while True:  # until some trials are there
            experiment = client.get_experiment_by_name("detol")
            if experiment and len(client.search_runs([experiment.experiment_id])) > half // 4:
                break
            time.sleep(0.2)
    for trial in some[half:]:
        tracker.record(trial, None)
    tracker.close()
    with server(folder, port) as uri:
        began = time.perf_counter()
        done = sync(some, uri, "cut", {"space": "made"}, data=DATA, summary={"trials": len(some)})
        seconds = time.perf_counter() - began
        check(uri, "cut", some)
        again = sync(some, uri, "cut", {"space": "made"}, data=DATA, summary={"trials": len(some)})
        check(uri, "cut", some)
    return {
        "trials": len(some),
        "warnings": len(said),
        "behind_before": tracker.behind,
        "added_by_sync": done.added,
        "complete_before": done.complete,
        "seconds": round(seconds, 2),
        "added_by_second_sync": again.added,
    }


def main() -> None:
    """Mirror, and print the rates."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=1000)
    options = parser.parse_args()
    count = 60 if options.quick else options.trials
    os.environ.update(ENVIRONMENT)
    some = trials(count)
    figures: dict[str, Any] = {"benchmark": "mirror", "quick": options.quick, "epochs": EPOCHS}

    def rate(case: str, took: tuple[float, float]) -> None:
        seconds, busy = took
        figures[case] = {
            "runs": count,
            "seconds": round(seconds, 2),
            "runs_per_second": round(count / seconds, 1),
            "steady": round((count - 1) / max(1e-9, seconds - figures["start"]["seconds"]), 1),
            "cpu_ms": round(1000 * (busy - figures["start"]["cpu_seconds"]) / count, 1),
        }
        print(case, figures[case], flush=True)

    with tempfile.TemporaryDirectory(prefix="detol-") as name:
        folder = Path(name)
        seconds, busy = mirrored(f"sqlite:///{folder}/start/mlflow.db", {"start": some[:1]})
        figures["start"] = {"seconds": round(seconds, 2), "cpu_seconds": round(busy, 2)}
        uri = f"sqlite:///{folder}/one/mlflow.db"
        took = mirrored(uri, {"one": some})
        check(uri, "one", some)
        rate("sqlite", took)
        uri = f"sqlite:///{folder}/two/mlflow.db"
        halves = {"left": some[: count // 2], "right": trials(count - count // 2)}
        took = mirrored(uri, halves)
        for search, part in halves.items():
            check(uri, search, part)
        rate("two", took)
        (folder / "server").mkdir()
        with server(folder / "server", free_port()) as uri:
            took = mirrored(uri, {"far": some})
            check(uri, "far", some)
            rate("server", took)
        (folder / "cut").mkdir()
        figures["sync"] = interrupted(folder / "cut", some[: max(40, count // 5)])
    conclude(figures, options.json)


if __name__ == "__main__":
    main()
