"""The runs of one search in MLflow, brought to what they should show; calling twice changes nothing."""

import functools
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from detol.errors import DetolError
from detol.graph.codec import to_json
from detol.graph.draw import svg
from detol.graph.topology import Topology
from detol.search.records import State
from detol.tracking import entities
from detol.tracking.dataset import dataset_input
from detol.tracking.entities import PREFIX, SECONDS
from detol.tracking.place import identity_of, open_store
from detol.tracking.uri import is_server
from detol.tracking.wanted import Wanted
from detol.tracking.wire import Start

_PAGE = 1000


@dataclass(slots=True)
class Child:
    """What is known of a trial's run: what it shows already."""

    run_id: str
    artifacts: str
    status: str
    tags: dict[str, str]
    steps: set[int] | None = field(default_factory=set)
    params: bool = False
    drawn: bool = False
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state it shows."""
        return State(self.tags.get(f"{PREFIX}state", State.RUNNING.value))

    def shows(self, wanted: Wanted) -> bool:
        """Return whether nothing is missing: the run was ended last of all, with the final state on it."""
        trial = wanted.trial
        return trial.state.final and self.state is trial.state and self.status == entities.status_of(trial.state)


class Runs:
    """The parent run of a search and the children of its trials.

    Every method may raise whatever MLflow, the database or the network raises. After that nothing that is known here
    can be trusted: make a new one, which reads back what was written. ``show`` may be called from several threads, for
    a different trial in each.

    Args:
        start: which search, and where.

    Attributes:
        children: by the number of the trial.
        parent: id of the parent run.
        served: whether a server stands before the database.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        self.client, self.experiment = open_store(start)
        self.served = is_server(start.uri)
        self.children: dict[int, Child] = {}
        parents = []
        for run in self._existing():
            tags = run.data.tags
            if f"{PREFIX}trial" in tags:
                self._keep(int(tags[f"{PREFIX}trial"]), run)
            else:
                parents.append(run)
        run = parents[0] if parents else self._create_parent()
        self.parent = str(run.info.run_id)
        if not run.data.params:
            for batch in entities.batches([], self._settings(), {}):
                self.client.log_batch(self.parent, params=batch.params)
        if self.start.data and not (run.inputs and run.inputs.dataset_inputs):
            self.client.log_inputs(self.parent, datasets=[dataset_input(self.start.data)])
        if run.info.status != "RUNNING":
            self.client.update_run(self.parent, status="RUNNING")

    def show(self, wanted: Wanted) -> bool:
        """Bring the run of one trial up to date; return whether anything had to be written."""
        trial = wanted.trial
        child = self.children.get(trial.number)
        if child is not None and child.tags.get(f"{PREFIX}digest") != trial.digest:
            child = None  # a run of another search that had this name
        if child is not None and child.shows(wanted):
            return False
        tags = entities.tags_of(wanted)
        child = child or self._create_child(wanted, tags)
        drawing = [] if child.drawn else self._draw(child, trial.candidate.topology)
        self._log(child, wanted, tags)
        for upload in drawing:
            upload.result()
        child.drawn = True
        status = entities.status_of(trial.state)
        if status != child.status:
            if trial.state.final:
                self.client.set_terminated(child.run_id, status, int(wanted.at * 1000))
            else:
                self.client.update_run(child.run_id, status=status)
            child.status = status
        return True

    def end(self, child: Child, at: float) -> None:
        """End a run whose search is gone; its state stays as it was last known. What paused has a score."""
        status = {"RUNNING": "KILLED", "SCHEDULED": "FINISHED"}.get(child.status)
        if status is not None:
            self.client.set_terminated(child.run_id, status, int(at * 1000))
            child.status = status

    def write(self, name: str, text: str) -> None:
        """Write a text file among the artifacts of the parent."""
        self.client.log_text(self.parent, text, name)

    def _log(self, child: Child, wanted: Wanted, tags: dict[str, str]) -> None:
        if child.steps is None:
            child.steps = {point.step for point in self.client.get_metric_history(child.run_id, SECONDS)}
        new = [point for epoch, point in wanted.points.items() if epoch not in child.steps]
        params = {} if child.params else entities.params_of(self.start, wanted)
        changed = {name: value for name, value in tags.items() if child.tags.get(name) != value}
        for batch in entities.batches(map(entities.metrics_of, new), params, changed):
            self.client.log_batch(child.run_id, metrics=batch.metrics, params=batch.params, tags=batch.tags)
        child.params = True
        child.tags |= tags
        for point in new:
            child.steps.add(point.report.epoch)
            child.metrics |= {"score": point.score, **point.report.metrics}

    def _draw(self, child: Child, topology: Topology) -> "list[Future[None]]":
        """Write the topology among the artifacts of a child; return the uploads that go on meanwhile."""
        picture = _picture(topology)
        texts = {"topology.json": to_json(topology), **({} if picture is None else {"topology.svg": picture})}
        folder = local_folder(child.artifacts)
        if folder is None:
            # Two requests to a server while it stores the metrics: a run there costs most of its time in waiting.
            return [uploads().submit(self._upload, child.artifacts, name, text) for name, text in texts.items()]
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return []

    def _upload(self, place: str, name: str, text: str) -> None:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        with tempfile.TemporaryDirectory(prefix="detol-") as folder:
            path = Path(folder) / name
            path.write_text(text, encoding="utf-8")
            # Not by the client, which asks the server first where the artifacts are.
            get_artifact_repository(place, tracking_uri=self.start.uri).log_artifact(str(path))

    def _existing(self) -> list[Any]:
        runs: list[Any] = []
        token: str | None = None
        where = f"tags.`{PREFIX}identity` = '{identity_of(self.start)}'"
        while True:
            page = self.client.search_runs([self.experiment], where, max_results=_PAGE, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs

    def _keep(self, number: int, run: Any) -> None:
        child = Child(
            run.info.run_id,
            run.info.artifact_uri,
            run.info.status,
            dict(run.data.tags),
            steps=None,
            params=bool(run.data.params),
            metrics=dict(run.data.metrics),
        )
        # Two mirrors on two machines may have made two runs: go on with the one that is complete.
        if number not in self.children or self.children[number].status == "RUNNING":
            self.children[number] = child

    def _create_parent(self) -> Any:
        tags = {
            **self._common(),
            f"{PREFIX}kind": "search",
            "mlflow.note.content": f"Search `{self.start.search}` of detol. Each nested run is a trial.",
        }
        return self.client.create_run(self.experiment, tags=tags, run_name=self.start.search)

    def _settings(self) -> dict[str, str]:
        settings = {entities.clean(name): str(value)[:6000] for name, value in self.start.settings.items()}
        objectives = {"objectives": ", ".join(map(str, self.start.objectives))} if self.start.objectives else {}
        return entities.named("recipe", self.start.recipe) | objectives | settings

    def _create_child(self, wanted: Wanted, tags: dict[str, str]) -> Child:
        trial = wanted.trial
        common = {**self._common(), f"{PREFIX}kind": "trial", "mlflow.parentRunId": self.parent}
        name = f"{trial.number:04d} {trial.candidate.note or trial.candidate.origin.value}"
        run = self.client.create_run(
            self.experiment, start_time=int(wanted.started * 1000), tags=tags | common, run_name=name
        )
        child = Child(run.info.run_id, run.info.artifact_uri, "RUNNING", dict(tags))
        self.children[trial.number] = child
        return child

    def _common(self) -> dict[str, str]:
        # What people filter by, over all searches: on the parent and on each trial.
        told = {name: self.start.settings.get(name, "") for name in ("space", "strategy", "stop")}
        told["data"] = self.start.data.get("name") or self.start.settings.get("data", "")
        return {
            **{f"{PREFIX}{name}": str(value)[:500] for name, value in told.items() if value},
            f"{PREFIX}search": self.start.search[:8000],
            f"{PREFIX}identity": identity_of(self.start),
            "mlflow.source.name": "detol",
        }


@functools.cache
def writers() -> ThreadPoolExecutor:
    """Return the threads that write trials to a server, each one trial at a time."""
    return ThreadPoolExecutor(4, "detol-writers")


@functools.cache
def uploads() -> ThreadPoolExecutor:
    """Return the threads that upload files; apart from the writers, which wait for them."""
    return ThreadPoolExecutor(4, "detol-uploads")


def local_folder(uri: str) -> Path | None:
    """Return the directory behind an artifact address on this machine's disk; ``None`` for any other store."""
    parsed = urlparse(uri)
    if parsed.scheme == "file" and not parsed.netloc:
        return Path(url2pathname(parsed.path))
    return Path(uri) if not parsed.scheme else None


def _picture(topology: Topology) -> str | None:
    """Return the SVG; ``None`` for a topology that cannot be drawn here (a kind that only the user's space knows)."""
    try:
        return svg(topology)
    except (DetolError, KeyError):
        return None
