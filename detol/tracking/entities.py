"""From trials to what MLflow stores: names it allows, tags, parameters, metrics, and batches within its limits.

Limits of ``mlflow/utils/validation.py`` (3.17): 250 characters a name, 6000 a parameter, 8000 a tag; 100 parameters,
100 tags, 1000 metrics and 1000 entities a batch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detol.graph.ops import Value
from detol.search.records import State
from detol.tracking.wanted import Point, Wanted
from detol.tracking.wire import Start

PREFIX = "detol."
SECONDS = "epoch_seconds"
"""The metric that every report has: its history tells which epochs were written."""

_BATCH = 100
_METRICS = 800


@dataclass(frozen=True, slots=True)
class Batch:
    """What one ``log_batch`` carries."""

    metrics: Sequence[Any]
    params: Sequence[Any]
    tags: Sequence[Any]


def clean(name: str) -> str:
    """Return the name with what MLflow forbids replaced by underscores, cut to 250 characters."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:250]


def tags_of(wanted: Wanted) -> dict[str, str]:
    """Return the tags of a trial; what is empty has none."""
    return {
        clean(PREFIX + name): str(value)[:8000] for name, value in wanted.facts() if value is not None and value != ""
    }


def params_of(start: Start, wanted: Wanted) -> dict[str, str]:
    """Return the parameters of a trial: its decisions and its recipe."""
    return named("decisions", wanted.trial.candidate.decisions) | named("recipe", start.recipe)


def named(prefix: str, values: Mapping[str, Value]) -> dict[str, str]:
    """Return values as text under ``PREFIX.NAME``."""
    return {clean(f"{prefix}.{name}"): str(value)[:6000] for name, value in values.items()}


def metrics_of(point: Point) -> list[Any]:
    """Return the metrics of one report, the epoch as the step; NaN is kept (the UI shows it), so is infinity."""
    values = {**point.report.metrics, SECONDS: point.report.seconds}
    if point.score == point.score:  # a NaN score says nothing that the metrics do not say
        values["score"] = point.score
    return [metric(name, value, point.report.epoch, point.at) for name, value in values.items()]


def metric(name: str, value: float, step: int, at: float) -> Any:
    """Return an MLflow metric; ``at`` in seconds since 1970."""
    from mlflow.entities import Metric

    return Metric(clean(name), float(value), int(at * 1000), step)


def batches(groups: Iterable[Sequence[Any]], params: Mapping[str, str], tags: Mapping[str, str]) -> Iterator[Batch]:
    """Cut into batches within MLflow's limits; the metrics of one group (a report) stay in one transaction."""
    from mlflow.entities import Param, RunTag

    chunks: list[list[Any]] = []
    for group in groups:
        if not chunks or len(chunks[-1]) + len(group) > _METRICS:
            chunks.append([])
        chunks[-1].extend(group)
    some_params = [Param(name, value) for name, value in params.items()]
    some_tags = [RunTag(name, value) for name, value in tags.items()]
    count = max(len(chunks), -(-len(some_params) // _BATCH), -(-len(some_tags) // _BATCH))
    for index in range(count):
        cut = slice(index * _BATCH, (index + 1) * _BATCH)
        yield Batch(chunks[index] if index < len(chunks) else [], some_params[cut], some_tags[cut])


def status_of(state: State) -> str:
    """Return the status of a run: finished where there is a score, killed where the machine or a limit ended it.

    A trial that rests is SCHEDULED: it may go on.
    """
    if state in (State.RUNNING, State.PAUSED):
        return "RUNNING" if state is State.RUNNING else "SCHEDULED"
    if state.scored:
        return "FINISHED"
    return "KILLED" if state in (State.LOST, State.TIMED_OUT, State.REFUSED) else "FAILED"
