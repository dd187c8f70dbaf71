"""What ``detol plan`` plans for: a published network, the result of a search, or networks of a space on some data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from detol import calibrated, config, defaults, wire
from detol.config import Settings
from detol.errors import TopologyError, UsageError
from detol.prepare import read_data
from detol.results import places
from detol.results.training import training_of
from detol.scaling import machine as machines
from detol.scaling.machine import Machine
from detol.scaling.presets import PRESETS, preset
from detol.scaling.published import BATCHES, network
from detol.scaling.work import Work
from detol.search.recipe import make_recipe
from detol.spaces import catalogue

SAMPLED = 3
"""Networks that are drawn from a space besides its references."""


@dataclass(frozen=True)
class Subject:
    """A network, the samples of its steps, and the precision of its training."""

    work: Work
    batch: int
    precision: str = "float32"


def subjects(model: str, data: str, space: str, db: str, options: dict[str, dict[str, str]]) -> list[Subject]:
    """Return what is planned for, the largest network first.

    Args:
        model: ``alexnet``, ``googlenet``, or a trial, topology or search of the results database; empty: of a space.
        data: name or path of data.
        space: name or file of a space, or ``auto``.
        db: results database.
        options: sections of settings (``recipe``, ``data``).

    Raises:
        UsageError: neither a model nor data, or whatever reading them refuses.
    """
    if bool(model) == bool(data):
        raise UsageError("a plan is of one thing: --model alexnet|googlenet|TRIAL|DIGEST|NAME, or --data D --space S")
    if model in BATCHES:
        return [Subject(network(model), BATCHES[model])]
    if model:
        return [_of_result(model, db)]
    return _of_space(config.settings(None, options, data=data, space=space or "auto"))


def machine(
    name: str, device: str, workers: int, precision: str, *, again: bool, say: Callable[[str], None]
) -> Machine:
    """Return the machine of that name: ``cached`` is this one, measured now if it was not before.

    Args:
        name: ``cached``, a preset, or a JSON file.
        device: of this machine: ``auto``, ``cpu`` or ``cuda``.
        workers: ranks of this machine; 0: one for each core or GPU.
        precision: of the products, for this machine.
        again: whether this machine is measured anew.
        say: called with a line about what is measured.

    Raises:
        UsageError: an unknown name, or a file that holds no machine.
    """
    if name == "cached":
        place = calibrated.where(device)
        return calibrated.machine(place, workers or defaults.workers(place), precision=precision, again=again, say=say)
    if again:
        raise UsageError(f"--recalibrate measures this machine, got --machine {name}: leave one of them out")
    if name not in PRESETS and (Path(name).suffix or Path(name).exists()):
        return machines.read(Path(name))
    return preset(name)


def _of_result(ref: str, db: str) -> Subject:
    with wire.database(db, create=False) as database, database.read() as connection:
        found = places.find(connection, ref)
        facts = training_of(connection, found)
    recipe = make_recipe({key: value for key, value in facts.recipe.items() if key in ("batch_size", "precision")})
    work = Work.of(found.trial.candidate.topology, facts.shape, facts.outputs, name=found.ref)
    return Subject(work, recipe.batch_size, recipe.precision)


def _of_space(settings: Settings) -> list[Subject]:
    searched = catalogue.load(settings.space) if settings.space != "auto" else None
    dataset = read_data(settings)
    searched = searched or catalogue.auto(dataset.kind)
    recipe = defaults.recipe(dataset.kind, dataset.shape, len(dataset.train.y))
    recipe = make_recipe(settings.section("recipe"), recipe)
    rng = np.random.default_rng(0)
    named = dict(searched.references)
    named |= {f"sample {number}": searched.sample(rng) for number in range(1, SAMPLED + 1)}
    bytes_ = float(dataset.train.x.dtype.itemsize)
    found, refused = [], ""
    for name, decisions in named.items():
        try:
            work = Work.of(searched.decode(decisions), dataset.shape, dataset.outputs, value_bytes=bytes_)
        except TopologyError as error:
            refused = str(error)
            continue
        found.append(Subject(replace(work, name=f"{searched.name} {name}"), recipe.batch_size, recipe.precision))
    if not found:
        raise UsageError(f"no network of {searched.name} fits {dataset.name}: {refused}")
    return sorted(found, key=lambda subject: -subject.work.multiply_adds)


def widths(text: str) -> Sequence[int]:
    """Read ``1,2,4``; nothing for an empty text.

    Raises:
        UsageError: something else than whole numbers with commas between them.
    """
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isascii() and part.isdecimal() and int(part) >= 1 for part in parts):
        raise UsageError(f"--ranks are whole numbers >= 1 with commas between them, e.g. 1,2,4, got {text!r}")
    return [int(part) for part in parts]
