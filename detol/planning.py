"""What ``detol plan`` plans for: a published network, the result of a search, or networks of a space on some data."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from detol import calibrated, config, defaults, wire
from detol.config import Settings
from detol.errors import ResultsError, TopologyError, UsageError, unknown
from detol.graph.topology import Topology
from detol.prepare import read_data
from detol.results import places
from detol.results.training import training_of
from detol.scaling import machine as machines
from detol.scaling.machine import Machine
from detol.scaling.presets import PRESETS, preset
from detol.scaling.published import BATCHES, network
from detol.scaling.work import Work
from detol.search.recipe import Recipe, make_recipe
from detol.spaces import catalogue

SAMPLED = 3
"""Networks that are drawn from a space besides its references."""
MOST = 10**9
"""The largest number of ranks or samples that is planned for."""


@dataclass(frozen=True)
class Subject:
    """A network and how it trains; a published one has no topology, and cannot be timed."""

    work: Work
    recipe: Recipe
    topology: Topology | None = None
    shape: tuple[int, ...] = ()
    outputs: int = 2


def subjects(model: str, data: str, space: str, db: str, options: dict[str, dict[str, str]]) -> list[Subject]:
    """Return what is planned for, the largest network first.

    Args:
        model: ``alexnet``, ``googlenet``, or a trial, topology or search of the results database; empty: of a space.
        data: name or path of data.
        space: name or file of a space, or ``auto``.
        db: results database.
        options: sections of settings (``recipe``, ``data``).

    Raises:
        UsageError: neither a model nor data, a setting that belongs to data alone, or whatever reading them refuses.
    """
    if bool(model) == bool(data):
        raise UsageError("a plan is of one thing: --model alexnet|googlenet|TRIAL|DIGEST|NAME, or --data D --space S")
    if model and (space or options):
        told = "--space" if space else "--set"
        raise UsageError(f"{told} is of networks of --data, got --model {model} too: leave one of them out")
    if model in BATCHES:
        return [Subject(network(model), Recipe(batch_size=BATCHES[model]))]
    if model:
        return [_of_result(model, db)]
    return _of_space(config.settings(None, options, data=data, space=space or "auto"))


def machine(
    name: str, device: str | None, workers: int | None, precision: str, *, again: bool, say: Callable[[str], None]
) -> Machine:
    """Return the machine of that name: ``cached`` is this one, measured now if it was not before.

    Args:
        name: ``cached``, a preset, or a JSON file.
        device: of this machine: ``auto``, ``cpu`` or ``cuda``; ``None``, where nobody said: ``auto``.
        workers: ranks of this machine; 0, or ``None`` where nobody said: one for each core or GPU.
        precision: of the products, for this machine.
        again: whether this machine is measured anew.
        say: called with a line about what is measured.

    Raises:
        UsageError: an unknown name, workers below 0, a file that holds no machine, or another machine than this one
            where a device, workers or a measurement of this one was asked for.
    """
    if workers is not None and workers < 0:
        raise UsageError(f"--workers must be >= 1, or 0 for one for each core or GPU, got {workers}")
    if name == "cached":
        place = calibrated.where(device or "auto")
        return calibrated.machine(place, workers or defaults.workers(place), precision=precision, again=again, say=say)
    here = {
        "--recalibrate measures": again,
        "--device is of": device is not None,
        "--workers are ranks of": workers is not None,
    }
    for told, given in here.items():
        if given:
            raise UsageError(f"{told} this machine, got --machine {name}: leave one of them out")
    if name not in PRESETS and (Path(name).suffix or Path(name).exists()):
        return machines.read(Path(name))
    return preset(name)


def _of_result(ref: str, db: str) -> Subject:
    try:
        with wire.database(db, create=False) as database, database.read() as connection:
            found = places.find(connection, ref)
            facts = training_of(connection, found)
    except ResultsError as error:
        raise _no_model(ref, error) from None
    topology = found.trial.candidate.topology
    work = Work.of(topology, facts.shape, facts.outputs, name=found.ref)
    return Subject(work, make_recipe(facts.recipe), topology, facts.shape, facts.outputs)


def _no_model(ref: str, error: ResultsError) -> ResultsError:
    """Return the error for what is no result, with the published networks: one of them may have been meant."""
    if near := difflib.get_close_matches(ref, BATCHES, n=1, cutoff=0.7):
        return ResultsError(f"{unknown('model', ref, near)} It is no result either: {error}")
    return ResultsError(f"{error} (known models: {', '.join(sorted(BATCHES))})")


def _of_space(settings: Settings) -> list[Subject]:
    searched = catalogue.load(settings.space) if settings.space != "auto" else None
    dataset = read_data(settings)
    searched = searched or catalogue.auto(dataset.kind)
    precision = defaults.precision(dataset.task, dataset.kind, dataset.shape, settings.device)
    recipe = defaults.recipe(dataset.kind, dataset.shape, len(dataset.train.y), precision)
    recipe = make_recipe(settings.section("recipe"), recipe)
    rng = np.random.default_rng(0)
    named = dict(searched.references)
    named |= {f"sample {number}": searched.sample(rng) for number in range(1, SAMPLED + 1)}
    bytes_ = float(dataset.train.x.dtype.itemsize)
    found, refused = [], ""
    for name, decisions in named.items():
        try:
            topology = searched.decode(decisions)
            work = Work.of(topology, dataset.shape, dataset.outputs, value_bytes=bytes_)
        except TopologyError as error:
            refused = str(error)
            continue
        work = replace(work, name=f"{searched.name} {name}")
        found.append(Subject(work, recipe, topology, dataset.shape, dataset.outputs))
    if not found:
        raise UsageError(f"no network of {searched.name} fits {dataset.name}: {refused}")
    return sorted(found, key=lambda subject: -subject.work.multiply_adds)


def timed(subject: Subject, batch: int, widths: Sequence[int], machine: Machine, *, weak: bool) -> dict[int, float]:
    """Return the seconds of a step of a network on one rank of this machine, by its samples.

    Args:
        subject: the network.
        batch: samples of a step.
        widths: that are planned for.
        machine: this one; its name of the device counts.
        weak: whether each rank has the whole batch.

    Raises:
        UsageError: a published network, whose layers are known but not how they are joined.
    """
    from detol.workers.calibration.network import network_seconds

    if subject.topology is None:
        raise UsageError(f"--measure trains a network, and {subject.work.name} is a table of layers: leave it out")
    least = subject.work.least
    samples = {batch} if weak else {max(2, -(-batch // min(width, max(1, batch // least)))) for width in (1, *widths)}
    return network_seconds(
        subject.topology,
        subject.shape,
        max(2, subject.outputs),
        subject.recipe,
        sorted(samples),
        device=machine.device,
    )


def widths(text: str | None) -> Sequence[int]:
    """Read ``1,2,4``; nothing for ``None``.

    Raises:
        UsageError: something else than whole numbers from 1 to ``MOST`` with commas between them.
    """
    if text is None:
        return []
    parts = [part.strip().lstrip("0") for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"--ranks are whole numbers >= 1 with commas between them, e.g. 1,2,4, got {text!r}")
    largest = max(parts, key=lambda part: (len(part), part))
    if len(largest) > len(str(MOST)) or int(largest) > MOST:  # Python reads no more than some thousand digits
        raise UsageError(f"--ranks must be at most {MOST:,}, got {largest[:40]}: give smaller ones")
    return [int(part) for part in parts]


def check_batch(batch: int) -> None:
    """Check the samples of a step; 0: the network's own.

    Raises:
        UsageError: more than ``MOST``.
    """
    if batch > MOST:
        raise UsageError(f"--batch must be at most {MOST:,}, got {str(batch)[:40]}: give a smaller one")
