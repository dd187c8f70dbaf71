"""What is handed over after a search: the test of the winner, its export, and a mirror brought up to date."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import wire
from detol.config import Settings
from detol.errors import DetolError, UsageError
from detol.prepare import Prepared, read_data
from detol.result import SearchResult
from detol.results.weights import load_weights
from detol.search.recipe import Recipe, make_recipe
from detol.search.records import Trial, parse_objective

if TYPE_CHECKING:
    from detol.tracking.sync import Synced
    from detol.workers.data.dataset import Dataset

Say = Callable[[str], None]


def weights_of(trial: Trial, dataset: "Dataset", recipe: Recipe, home: Path, say: Say = lambda _: None) -> bytes:
    """Return a trial's weights: as kept, or trained again (on CPU the same seed gives the same weights).

    Args:
        trial: with a score.
        dataset: it was trained on.
        recipe: it was trained by.
        home: directory of the runs.
        say: told when it is trained again.
    """
    kept = load_weights(home, trial.weights)
    if kept is not None:
        return kept
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
    """Read the test split: return the metrics of a trial's weights on it."""
    from detol.workers.train import evaluate

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
            about = {"search": result.name, "test": dict(result.test)}
            try:
                export(result.best, prepared.dataset, weights, target, recipe=prepared.task.recipe, about=about)
            except (DetolError, OSError) as error:
                say(f"the best network was not logged to MLflow: {error}")
                target = None
        yield target


def export_trial(
    ref: str,
    directory: Path,
    formats: Sequence[str] = (),
    *,
    db: str = "",
    say: Say = lambda _: None,
) -> Mapping[str, Any]:
    """Export the best trial of a search or topology, or one trial; return the manifest.

    Args:
        ref: ``NAME`` of a search, ``NAME/NUMBER``, or a digest.
        directory: to write; must not exist, or be empty.
        formats: some of those of :mod:`detol.export`; all by default.
        db: results database.
        say: told what takes time.

    Raises:
        UsageError: no such trial, one without a score, changed data, a destination that is not free.
    """
    from detol.export.destination import check_destination
    from detol.export.writer import FORMATS, export
    from detol.results.query import Query

    check_destination(directory)
    with wire.database(db, create=False) as database:
        query = Query(database)
        found = query.resolve(ref)
        first = query.trained(found)
        stored = query.settings(first.search)["settings"]
        shown = query.show(found.ref)
    if found.trial.scores is None:
        raise UsageError(
            f"{found.ref} has no score to export ({found.trial.state}: {found.trial.reason}): choose another"
        )
    settings = Settings.from_dict(stored["settings"])
    dataset = read_data(settings)
    if dataset.digest != shown["data"]["digest"]:
        raise UsageError(f"the data at {settings.data} have changed since {first.ref} was trained: put them back")
    kept = {key: value for key, value in shown["recipe"].items() if key != "digest"}
    recipe = make_recipe(kept)
    trial = replace(found.trial, weights=first.trial.weights, reused=found.trial.reused)
    weights = weights_of(replace(trial, seed=first.trial.seed), dataset, recipe, wire.home(db), say)
    about = {
        "search": found.search,
        "trial": found.ref,
        "trained_as": first.ref,
        "objective": shown["metric"],
        "value": shown["value"],
        "test": (stored.get("summary") or {}).get("test") if _is_best(stored, found.trial) else None,
    }
    return export(trial, dataset, weights, directory, tuple(formats) or FORMATS, recipe=recipe, about=about)


def _is_best(stored: Mapping[str, Any], trial: Trial) -> bool:
    best = (stored.get("summary") or {}).get("best") or {}
    return best.get("digest") == trial.digest


def synchronise(name: str, *, db: str = "", tracking: str = "") -> "Synced":
    """Write to MLflow what is missing there of a search.

    Raises:
        UsageError: no such search, or tracking that is off.
    """
    from detol.tracking.sync import sync

    with wire.database(db, create=False) as database:
        store = database.open_search(name, lock=False)
        trials, stored, created = store.trials(), store.settings, store.created
    settings = Settings.from_dict(stored["settings"])
    settings = replace(settings, db=db, tracking=tracking or settings.tracking)
    uri = wire.tracking_uri(settings.tracking, db)
    if not uri:
        raise UsageError(f"search {name!r} ran with tracking off: give --tracking URI")
    summary = stored.get("summary")
    number = ((summary or {}).get("best") or {}).get("trial")
    return sync(
        trials,
        uri,
        name,
        wire.flat(settings),
        best=next((trial for trial in trials if trial.number == number), None),
        summary=summary,
        recipe=stored["recipe"],
        objectives=tuple(map(parse_objective, stored["objectives"])),
        identity=f"{name}@{created}",
    )
