"""The parent run: best so far, trials by state, and at the end the summary, the export and the best model."""

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detol.search.records import INHERITED, TIE_BREAK, State
from detol.tracking import entities
from detol.tracking.entities import PREFIX
from detol.tracking.model import ALIAS, log_model, register
from detol.tracking.runs import Child, Runs
from detol.tracking.wire import Finish


class Parent:
    """Writes what the parent run of a search shows; it may raise whatever MLflow raises.

    Args:
        runs: the search's runs; their children are what is counted.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._shown: dict[str, float] = {}

    def show(self, utilisation: float | None = None) -> None:
        """Log what changed since the last call; the step is how many trials ended.

        Trials by state, the best score, what reuse and early stopping spared, and how busy the workers were so far
        (``utilisation``, in [0, 1]; ``None`` when nobody knows).
        """
        children = self._runs.children.values()
        states = Counter(child.state for child in children)
        ended = sum(count for state, count in states.items() if state.final)
        values = {f"trials.{state.value}": float(states[state]) for state in State if states[state]}
        # A count that fell to none has to be shown as none.
        values |= {name: 0.0 for name in self._shown if name.startswith("trials.") and name not in values}
        values["trials.reused"] = float(sum(1 for child in children if f"{PREFIX}reused" in child.tags))
        values |= self._savings()
        if utilisation is not None:
            values["utilisation"] = round(utilisation, 3)
        best = self._best()
        if best is not None:
            names = {objective.metric for objective in self._runs.start.objectives}
            values["best.score"] = best.metrics["score"]
            values |= {f"best.{name}": value for name, value in best.metrics.items() if name in names}
        changed = {name: value for name, value in values.items() if self._shown.get(name) != value}
        if not changed:
            return
        now = time.time()
        metrics = [entities.metric(name, value, ended, now) for name, value in changed.items()]
        tags = {f"{PREFIX}best": best.tags[f"{PREFIX}trial"], f"{PREFIX}best_run": best.run_id} if best else {}
        for batch in entities.batches([metrics], {}, tags):
            self._runs.client.log_batch(self._runs.parent, metrics=batch.metrics, tags=batch.tags)
        self._shown |= changed

    def finish(self, finish: Finish) -> None:
        """Write the summary, the export's files and the best model; calling it twice leaves one model."""
        runs = self._runs
        flat = dict(_flat(finish.summary))
        numbers = {name: float(v) for name, v in flat.items() if isinstance(v, int | float)}
        texts = {f"{PREFIX}summary.{name}": str(v)[:8000] for name, v in flat.items() if name not in numbers}
        if finish.best is not None:
            texts[f"{PREFIX}best_digest"] = finish.best.digest
        used = self._utilisation(numbers.get("seconds", 0.0))
        if used is not None:
            numbers["utilisation"] = used
        now = time.time()
        metrics = [entities.metric(f"summary.{name}", value, 0, now) for name, value in numbers.items()]
        for batch in entities.batches([metrics], {}, {entities.clean(name): v for name, v in texts.items()}):
            runs.client.log_batch(runs.parent, metrics=batch.metrics, tags=batch.tags)
        runs.write("summary.json", json.dumps(dict(finish.summary), indent=2, default=str))
        report = Path(finish.report) if finish.report else None
        if report is not None and report.is_file() and not (finish.keep and self._has(report.name)):
            runs.client.log_artifact(runs.parent, str(report))
        folder = Path(finish.export) if finish.export else None
        if folder is not None and folder.is_dir():
            runs.client.log_artifacts(runs.parent, str(folder), "export")
            labels = {f"{PREFIX}search": runs.start.search}
            if finish.best is not None:
                labels[f"{PREFIX}digest"] = finish.best.digest
            model = log_model(runs.client, runs.experiment, runs.parent, folder, labels)
            if model is not None:
                self._register(model, labels)

    def end(self, *, finished: bool) -> None:
        """End the parent: FINISHED after a finished search, KILLED after one that was cut off."""
        self._runs.client.set_terminated(self._runs.parent, "FINISHED" if finished else "KILLED")

    def _has(self, name: str) -> bool:
        """Return whether the parent has an artifact of this name."""
        return name in {item.path for item in self._runs.client.list_artifacts(self._runs.parent)}

    def _register(self, model: str, labels: Mapping[str, str]) -> None:
        """Make the best model a version of the registered model that has the search's name; the alias moves to it."""
        from mlflow.exceptions import MlflowException

        runs = self._runs
        try:
            name, _ = register(runs.client, runs.start.search, model, run_id=runs.parent, labels=labels)
        except MlflowException as error:
            if error.error_code not in ("PERMISSION_DENIED", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"):
                raise
            print(f"not registered: {error}", file=sys.stderr)  # noqa: T201  the mirror's log; a store without registry
            return
        runs.client.set_tag(runs.parent, f"{PREFIX}model", f"models:/{name}@{ALIAS}")

    def _savings(self) -> dict[str, float]:
        """Return the epochs that early stopping left out, and those that answers from the database left out."""
        spared = answered = 0
        for child in self._runs.children.values():
            epoch, epochs = _whole(child, "epoch"), _whole(child, "epochs")
            if f"{PREFIX}reused" in child.tags:
                answered += epoch
            elif child.state is State.STOPPED:
                spared += max(0, epochs - epoch)
        return {"savings.epochs_stopped": float(spared), "savings.epochs_reused": float(answered)}

    def _utilisation(self, seconds: float) -> float | None:
        """Return the ranks' seconds of all trials over the workers' seconds of the search."""
        available = seconds * self._runs.start.workers
        used = sum(
            float(child.tags.get(f"{PREFIX}seconds", 0)) * (_whole(child, "width") or 1)
            for child in self._runs.children.values()
            if f"{PREFIX}reused" not in child.tags
        )
        return min(1.0, round(used / available, 4)) if available > 0 else None

    def _best(self) -> Child | None:
        scored = [
            child
            for child in self._runs.children.values()
            if child.state.scored and math.isfinite(child.metrics.get("score", math.nan))
        ]

        # As detol.result.conclude: what was trained from scratch comes first. As detol.search.scoring.better: the best
        # is never chosen at low fidelity, and the log loss decides on equals.
        def rank(child: Child) -> tuple[bool, bool, float, float]:
            scratch, loss = not child.tags.get(f"{PREFIX}extra.{INHERITED}"), child.metrics.get(TIE_BREAK, math.inf)
            less = -loss if math.isfinite(loss) else -math.inf
            return scratch, child.state is State.COMPLETED, child.metrics["score"], less

        return max(scored, key=rank, default=None)


def _whole(child: Child, name: str) -> int:
    return int(child.tags.get(f"{PREFIX}{name}", 0))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values below a nested summary as (``OUTER.INNER``, value); what is empty is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            yield f"{prefix}{name}", value
