"""What is handed over after a search: the test of the winner, its export, and a mirror brought up to date."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import wire
from detol.config import Settings
from detol.errors import DetolError, OutOfMemory, UsageError
from detol.prepare import Prepared, read_data
from detol.result import SearchResult
from detol.results.rules import PUBLISHED
from detol.results.weights import load_weights
from detol.search.recipe import Recipe, make_recipe
from detol.search.records import Trial, parse_objective

if TYPE_CHECKING:
    from detol.results.query import Found, Query
    from detol.tracking.sync import Synced
    from detol.workers.data.dataset import Dataset

Say = Callable[[str], None]

LOGGED = ("onnx", "python")
"""Formats of the winner that MLflow gets; its own is made of ONNX."""

REPORT = "report.html"
"""Name of the report among the artifacts of a search in MLflow."""


def weights_of(trial: Trial, dataset: "Dataset", recipe: Recipe, home: Path, say: Say = lambda _: None) -> bytes:
    """Return a trial's weights: as kept, or trained again (on CPU the same seed gives the same weights).

    Args:
        trial: with a score.
        dataset: it was trained on.
        recipe: it was trained by.
        home: directory of the runs.
        say: told when it is trained again.

    Raises:
        UsageError: weights that were not kept, of a trial that inherited others: they cannot be had again.
    """
    kept = load_weights(home, trial.weights)
    if kept is not None:
        return kept
    if trial.inherited:
        raise UsageError(
            f"the weights of trial {trial.number} were not kept, and it started from those of trial {trial.inherited}: "
            "training it again would not repeat them; choose another trial"
        )
    from detol.workers.tensors import use_threads
    from detol.workers.train import Training

    use_threads(1)  # as workers do: another number of threads rounds otherwise
    say(f"the weights of trial {trial.number} were not kept: training it again for {trial.epoch} epochs")
    training = Training(trial.candidate.topology, dataset, recipe, epochs=trial.epochs, seed=trial.seed)
    for report in training.reports():
        if report.epoch >= trial.epoch:
            break
    return training.weights()


def test_of(trial: Trial, weights: bytes, dataset: "Dataset") -> dict[str, float]:
    """Read the test split: return the metrics of a trial's weights on it, where it was trained if that is here."""
    from detol.workers import devices
    from detol.workers.evaluate import evaluate

    if trial.extra.get("device") == "cuda" and devices.gpus():
        with suppress(OutOfMemory):  # workers may still hold the device
            return evaluate(trial.candidate.topology, weights, dataset, "test", device="cuda")
    return evaluate(trial.candidate.topology, weights, dataset, "test")


@contextmanager
def exported(
    result: SearchResult, weights: bytes, prepared: Prepared, *, wanted: bool, say: Say
) -> Iterator[Path | None]:
    """Export the winner into a temporary directory while it is logged to MLflow; ``None`` when nothing is to log.

    An export that fails costs the model in MLflow and a warning, not the search.
    """
    with tempfile.TemporaryDirectory(prefix="detol-") as folder:
        target: Path | None = None
        if wanted and result.best is not None:
            from detol.export.writer import export

            target = Path(folder) / "best"
            settings, recipe = prepared.settings, prepared.task.recipe
            search = {"name": result.name, "space": prepared.task.space.name, "strategy": settings.strategy}
            figures = ("objective", "trials", "trained", "reused", "stopped")
            about = {
                "trial": f"{result.name}/{result.best.number}",
                "search": {**search, **{name: result.summary.get(name) for name in figures}},
                "test": dict(result.test),
            }
            try:
                export(result.best, prepared.dataset, weights, target, LOGGED, recipe=recipe, about=about)
            except (DetolError, OSError) as error:
                say(f"the best network was not logged to MLflow: {error}")
                target = None
        yield target


@contextmanager
def reported(name: str, db: str, *, wanted: bool, say: Say) -> Iterator[Path | None]:
    """Write the short report of a search into a temporary directory while it is logged to MLflow.

    Without the importance of decisions, and with the topologies of the front alone: about a second. One that fails
    costs a warning, not the search.
    """
    with tempfile.TemporaryDirectory(prefix="detol-") as folder:
        target: Path | None = None
        if wanted:
            from detol.dashboards.report.writer import write_report
            from detol.reproduce import of_search
            from detol.results.query import Query

            target = Path(folder) / REPORT
            try:
                with wire.database(db, create=False) as database:
                    asked = Query(database)
                    write_report(asked, name, target, command=of_search(asked, name), resamples=0, most=0)
            except Exception as error:  # what a picture trips over must not cost a search its end
                say(f"the report was not logged to MLflow: {error}")
                target = None
        yield target


def export_trial(
    ref: str,
    directory: Path,
    formats: Sequence[str] = (),
    *,
    db: str = "",
    say: Say = lambda _: None,
    retrain: int = 0,
    with_data: bool = False,
    register: str = "",
    tracking: str = "",
) -> Mapping[str, Any]:
    """Export the best trial of a search or topology, or one trial; return the certificate.

    Args:
        ref: ``NAME`` of a search, ``NAME/NUMBER``, or a digest.
        directory: to write; must not exist, or be empty.
        formats: some of those of :mod:`detol.export`; onnx, torch and python by default.
        db: results database.
        say: told what takes time.
        retrain: train it from scratch on train plus validation with so many seeds, and certify mean and spread; a trial
            whose weights were not kept is then trained once more as in the search, for its weights.
        with_data: whether the data are written too, as ``train.py`` reads them.
        register: name under which the model is registered in MLflow; empty: it is not.
        tracking: MLflow's address; that of the search by default.

    Raises:
        UsageError: no such trial, one without a score or weights, changed data, a format whose library is missing, a
            destination that is not free.
    """
    from detol.export.destination import check_destination
    from detol.export.formats import DEFAULT, chosen
    from detol.export.writer import export
    from detol.results.query import Query

    names = chosen(formats or DEFAULT)
    check_destination(directory)
    if retrain < 0:
        raise UsageError(f"--retrain takes a number of seeds, at least 1, got {retrain}")
    if register and not {"mlflow", "onnx"} & set(names):
        raise UsageError(f"--register needs --format mlflow or onnx, got {','.join(names)}")
    with wire.database(db, create=False) as database:
        query = Query(database)
        found = query.resolve(ref)
        first = query.trained(found)
        stored = query.settings(first.search)["settings"]
        shown = query.show(found.ref)
        about = _about(query, found, first)
        created = query.status(found.search).created
    if found.trial.scores is None:
        raise UsageError(
            f"{found.ref} has no score to export ({found.trial.state}: {found.trial.reason}): choose another"
        )
    if shown["recipe"]["digest"].startswith(f"{PUBLISHED}:"):
        raise UsageError(
            f"{found.ref} is a published result without weights or data here: train its network on your data with "
            f"detol search --strategy grow --start {found.trial.digest}, or show it with detol results show"
        )
    settings = Settings.from_dict(stored["settings"])
    uri = _registry(settings, tracking, db) if register else ""
    kept = load_weights(wire.home(db), first.trial.weights)
    if kept is None and not retrain:
        raise UsageError(
            f"the weights of {found.ref} were not kept (a search keeps those of its best trials): add --retrain 1 to "
            f"train it again ({found.trial.epoch} epochs), or choose another trial"
        )
    dataset = read_data(settings)
    if dataset.digest != shown["data"]["digest"]:
        raise UsageError(f"the data at {settings.data} have changed since {first.ref} was trained: put them back")
    recipe = make_recipe({key: value for key, value in shown["recipe"].items() if key != "digest"})
    # The topology that was trained: an isomorphic one may name its nodes otherwise, and weights go by names.
    trained = replace(found.trial.candidate, topology=first.trial.candidate.topology)
    trial = replace(found.trial, candidate=trained, weights=first.trial.weights, reused=found.trial.reused)
    weights = kept or weights_of(replace(trial, seed=first.trial.seed), dataset, recipe, wire.home(db), say)
    if retrain:
        from detol.retrain import retrained

        about |= {"retrained": retrained(trial, dataset, recipe, retrain, say)}
    certificate = export(
        trial, dataset, weights, directory, names, recipe=recipe, about=about, again=kept is None, with_data=with_data
    )
    if register:
        from detol.tracking.registry import register_export
        from detol.tracking.wire import Start

        start = Start(uri=uri, search=found.search, identity=f"{found.search}@{created}")
        labels = {"detol.trial": found.ref, "detol.digest": found.trial.digest}
        certificate["registered"] = register_export(start, directory.absolute(), register, labels)
    return certificate


def _registry(settings: Settings, tracking: str, db: str) -> str:
    """Return MLflow's address for the registry."""
    uri = wire.tracking_uri(tracking or settings.tracking, db)
    if not uri:
        raise UsageError("--register needs MLflow, and the search ran with tracking off: give --tracking URI")
    return uri


def _about(query: "Query", found: "Found", first: "Found") -> dict[str, Any]:
    """Return what the certificate says of a trial's search and descent."""
    row = query.status(found.search)
    stored = query.settings(found.search)["settings"]
    shown = query.show(found.ref)
    search = {
        "name": row.name,
        "space": row.space,
        "strategy": row.strategy,
        "stop": row.stopper,
        "objective": row.objective,
        "seed": row.seed,
        "trials": row.trials,
        "trained": row.trained,
        "reused": row.reused,
        "stopped": row.states.get("stopped", 0),
        "epochs_trained": row.epochs_trained,
        "created": row.created,
    }
    lineage = [
        {name: getattr(line, name) for name in ("generation", "trial", "parents", "origin", "note", "value", "digest")}
        for line in query.lineage(found.ref)
    ]
    return {
        "trial": found.ref,
        "trained_as": first.ref,
        "search": search,
        "lineage": lineage,
        "objective": shown["metric"],
        "value": shown["value"],
        "test": (stored.get("summary") or {}).get("test") if _is_best(stored, found.trial) else None,
    }


def _is_best(stored: Mapping[str, Any], trial: Trial) -> bool:
    best = (stored.get("summary") or {}).get("best") or {}
    return best.get("digest") == trial.digest


def attach(name: str, files: Sequence[Path], *, db: str = "", tracking: str = "") -> str:
    """Put files (a report ...) among the artifacts of a search in MLflow; return MLflow's address.

    Raises:
        UsageError: no such search, or tracking that is off.
        DetolError: MLflow cannot be reached, or does not have the search.
    """
    from detol.tracking.registry import attach as log
    from detol.tracking.wire import Start

    with wire.database(db, create=False) as database:
        store = database.open_search(name, lock=False)
        stored, created = store.settings, store.created
    uri = wire.tracking_uri(tracking or Settings.from_dict(stored["settings"]).tracking, db)
    if not uri:
        raise UsageError(f"search {name!r} ran with tracking off: give --tracking URI")
    log(Start(uri=uri, search=name, identity=f"{name}@{created}"), [file.absolute() for file in files])
    return uri


def attach_report(name: str, report: Path, *, db: str = "", tracking: str = "") -> str:
    """Put a report among the artifacts of a search in MLflow, in the place of the short one; return MLflow's address.

    Raises:
        UsageError, DetolError: as :func:`attach`.
    """
    with tempfile.TemporaryDirectory(prefix="detol-") as folder:
        copy = Path(folder) / REPORT
        copy.write_bytes(report.read_bytes())
        return attach(name, [copy], db=db, tracking=tracking)


def synchronise(name: str, *, db: str = "", tracking: str = "", say: Say = lambda _: None) -> "Synced":
    """Write to MLflow what is missing there of a search; of one that is over, its winner's export and model too.

    Args:
        name: of the search.
        db: results database.
        tracking: MLflow's address; that of the search by default.
        say: told why the winner's export is left out, if it is.

    Raises:
        UsageError: no such search, or tracking that is off.
    """
    from detol import defaults
    from detol.results.query import Query
    from detol.tracking.sync import sync

    with wire.database(db, create=False) as database:
        store = database.open_search(name, lock=False)
        trials, stored, created = store.trials(), store.settings, store.created
        data = {"digest": store.data, "source": stored["settings"]["data"], **Query(database).described(store.data)}
    settings = Settings.from_dict(stored["settings"])
    settings = replace(settings, db=db, tracking=tracking or settings.tracking)
    uri = wire.tracking_uri(settings.tracking, db)
    if not uri:
        raise UsageError(f"search {name!r} ran with tracking off: give --tracking URI")
    summary = stored.get("summary")
    number = ((summary or {}).get("best") or {}).get("trial")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="detol-"))
        target: Path | None = None
        if number is not None:
            target = Path(folder) / "best"
            try:
                export_trial(f"{name}/{number}", target, LOGGED, db=db, say=say)
            except (DetolError, OSError) as error:
                say(f"the best network was not logged to MLflow: {error}")
                target = None
        report = stack.enter_context(reported(name, db, wanted=number is not None, say=say))
        return sync(
            trials,
            uri,
            name,
            {**wire.flat(settings), "space": stored["space"]},
            best=next((trial for trial in trials if trial.number == number), None),
            summary=summary,
            export=target,
            report=report,
            recipe=stored["recipe"],
            objectives=tuple(map(parse_objective, stored["objectives"])),
            identity=f"{name}@{created}",
            data=data,
            workers=settings.workers or defaults.workers(settings.device),
        )
