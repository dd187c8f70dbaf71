"""The parent run: best so far, trials by state, and at the end the summary, the export and the best model."""

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detol.search.records import State
from detol.tracking import entities
from detol.tracking.entities import PREFIX
from detol.tracking.model import log_model
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

    def show(self) -> None:
        """Log what changed since the last call: trials by state, the best score; the step is how many trials ended."""
        children = self._runs.children.values()
        states = Counter(child.state for child in children)
        ended = sum(count for state, count in states.items() if state.final)
        values = {f"trials.{state.value}": float(states[state]) for state in State if states[state]}
        # A count that fell to none has to be shown as none.
        values |= {name: 0.0 for name in self._shown if name.startswith("trials.") and name not in values}
        values["trials.reused"] = float(sum(1 for child in children if f"{PREFIX}reused" in child.tags))
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
        now = time.time()
        metrics = [entities.metric(f"summary.{name}", value, 0, now) for name, value in numbers.items()]
        for batch in entities.batches([metrics], {}, {entities.clean(name): v for name, v in texts.items()}):
            runs.client.log_batch(runs.parent, metrics=batch.metrics, tags=batch.tags)
        runs.write(None, "summary.json", json.dumps(dict(finish.summary), indent=2, default=str))
        folder = Path(finish.export) if finish.export else None
        if folder is not None and folder.is_dir():
            runs.client.log_artifacts(runs.parent, str(folder), "export")
            log_model(runs.client, runs.experiment, runs.parent, folder)

    def end(self, *, finished: bool) -> None:
        """End the parent: FINISHED after a finished search, KILLED after one that was cut off."""
        self._runs.client.set_terminated(self._runs.parent, "FINISHED" if finished else "KILLED")

    def _best(self) -> Child | None:
        scored = [
            child
            for child in self._runs.children.values()
            if child.state.scored and math.isfinite(child.metrics.get("score", math.nan))
        ]
        return max(scored, key=lambda child: child.metrics["score"], default=None)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values below a nested summary as (``OUTER.INNER``, value); what is empty is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None and value != "":
            yield f"{prefix}{name}", value
