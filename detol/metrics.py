"""Prometheus metrics of a running search, for a scraper at ``http://HOST:PORT/metrics``.

The controller calls once a turn and leaves a picture of itself; the scraper's thread reads that picture, never the
controller. ``dashboards/grafana`` draws these metrics beside Ray's own.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from detol.errors import UsageError
from detol.search.controller import Controller
from detol.search.records import Objective
from detol.watch import Watcher

_COUNTERS = {
    "trained": ("detol_trials_trained", "Trials that were trained here, failures included."),
    "reused": ("detol_trials_reused", "Trials that were answered from the database."),
    "stopped": ("detol_trials_stopped", "Trials that were stopped early."),
    "failed": ("detol_trials_failed", "Trials that failed, diverged, ran out of memory or time, or were lost."),
    "refused": ("detol_trials_refused", "Candidates over a limit, never dispatched."),
    "epochs": ("detol_epochs_trained", "Epochs that were trained here."),
    "spared": ("detol_epochs_spared", "Epochs that stopping early left out."),
    "answered": ("detol_epochs_reused", "Epochs that answers from the database left out."),
}


@dataclass(frozen=True)
class Picture:
    """A search at one moment: its counts (keys of the counters), and values; ``None`` where there is none yet."""

    name: str
    objective: str = ""
    counts: dict[str, float] = field(default_factory=dict)
    running: int = 0
    ranks: int = 0
    paused: int = 0
    trials: int = 0
    limit: float = float("inf")
    best: float | None = None
    seconds: float = 0.0
    turn: float = 0.0


class Metrics:
    """Serves the metrics of one search while it is open (a context manager).

    Args:
        where: ``PORT`` or ``HOST:PORT`` to listen on, by default on this machine alone; empty: nothing is served.

    Raises:
        UsageError: no such address, a port that is in use, or no ``prometheus_client``.
    """

    def __init__(self, where: str = "") -> None:
        self._picture: Picture | None = None
        self._server: Any = None
        self.url = ""
        if where:
            self._serve(*_address(where))

    def _serve(self, host: str, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
        except ImportError:
            raise UsageError("--metrics needs prometheus_client: pip install 'detol[dashboard]'") from None
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(namespace="detol", registry=registry)
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise UsageError(f"--metrics cannot listen on {host}:{port}: {error.strerror}; take another port") from None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def __enter__(self) -> "Metrics":
        """Return itself; the port is given back at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def around(self, watcher: Watcher, name: str) -> Watcher:
        """Return a watcher that keeps the metrics of a search up to date, and shows it as ``watcher`` does."""
        if self._server is None:
            return watcher
        watcher.say(f"metrics: {self.url}")
        return _Watching(self, watcher, name)

    def keep(self, picture: Picture) -> None:
        """Take a picture: what is served from now on."""
        self._picture = picture

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of the last picture; called by the scraper's thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        picture = self._picture
        if picture is None:
            return
        labels = {"search": picture.name}
        about = {**labels, "objective": picture.objective}
        yield InfoMetricFamily("detol_search", "The search that runs.", value=about)
        for key, (name, text) in _COUNTERS.items():
            yield _one(CounterMetricFamily(name, text, labels=list(labels)), labels, picture.counts.get(key, 0))
        yield _one(
            CounterMetricFamily("detol_search_seconds", "Time the search consumed.", labels=list(labels)),
            labels,
            picture.seconds,
        )
        gauges = {
            "detol_trials": (picture.trials, "Trials that ended, refused ones left out."),
            "detol_trials_limit": (picture.limit, "Trials the search may make."),
            "detol_trials_running": (picture.running, "Trials that train now."),
            "detol_trials_paused": (picture.paused, "Trials that rest at a milestone."),
            "detol_ranks_busy": (picture.ranks, "Workers that train now, all ranks counted."),
            "detol_best_value": (picture.best, "Best value of the primary objective from scratch, as measured."),
            "detol_last_turn_timestamp_seconds": (picture.turn, "When the controller last turned."),
        }
        for name, (value, text) in gauges.items():
            if value is not None:
                yield _one(GaugeMetricFamily(name, text, labels=list(labels)), labels, value)


def _one(family: Any, labels: dict[str, str], value: float) -> Any:
    family.add_metric(list(labels.values()), value)
    return family


def _address(where: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:(?P<host>\[[^\]]+\]|[^:]+):)?(?P<port>\d{1,5})", where)
    if not match or int(match["port"]) > 65535:
        raise UsageError(f"--metrics takes PORT or HOST:PORT, with a port up to 65535, got {where!r}")
    return (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


class _Watching:
    """Shows a search as another watcher does, and takes its picture each turn."""

    def __init__(self, metrics: Metrics, watcher: Watcher, name: str) -> None:
        self._metrics, self._watcher, self._name = metrics, watcher, name
        self._objective = Objective("score")

    def started(self, search: Controller, objective: Objective) -> None:
        self._objective = objective
        self._watcher.started(search, objective)

    def __call__(self, search: Controller) -> None:
        tally, running = search.tally, search.running
        best = tally.scratch or tally.best  # as the summary reports: one number has no mark that it was inherited
        self._metrics.keep(
            Picture(
                name=self._name,
                objective=str(self._objective),
                counts={key: float(getattr(tally, key)) for key in _COUNTERS},
                running=len(running),
                ranks=sum(trial.width for trial in running.values()),
                paused=tally.paused,
                trials=tally.trials,
                limit=float(search.task.limits.trials),
                best=self._objective.score(best.score) if best else None,
                seconds=search.seconds,
                turn=time.time(),
            )
        )
        self._watcher(search)

    def say(self, text: str) -> None:
        self._watcher.say(text)

    def close(self) -> None:
        self._watcher.close()
