"""From settings to what a search needs: read and checked before anything is written or started."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from detol import defaults, plugins, warming, wire
from detol.calibrate import epochs_within
from detol.config import EPOCHS, Settings, stepwise
from detol.errors import TopologyError, UsageError, unknown
from detol.graph import cost
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.results.earlier import Curve, as_trials
from detol.search.dominance import VIOLATION
from detol.search.limits import Limits
from detol.search.protocols import Pauser, SearchSpace, Stopper, Strategy
from detol.search.recipe import Recipe, check_augment, make_recipe
from detol.search.records import Candidate, parse_objective
from detol.search.scoring import check_objectives
from detol.search.stages import largest_part
from detol.search.task import Assessment, Task
from detol.search.warm import warm_digest
from detol.spaces import catalogue
from detol.warming import Warm
from detol.widths import widths
from detol.workers import devices, step_way
from detol.workers.elastic import roll

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

MEMORY_SHARE = 0.8
"""Share of a worker's memory that the estimate of a candidate may take."""


@dataclass(frozen=True)
class Prepared:
    """A search that can start: its settings, data, task, strategy and stopper, all checked.

    ``identity`` is equal for searches that try the same candidates in the same order; ``earlier`` are the curves that
    its stopping rule begins with, ``warm`` what it learns from other data sets.
    """

    settings: Settings
    dataset: "Dataset"
    task: Task
    strategy: Strategy
    stopper: Stopper
    workers: int
    identity: str
    earlier: tuple[Curve, ...] = ()
    warm: Warm = warming.COLD


def prepare(
    settings: Settings,
    *,
    space: SearchSpace | None = None,
    strategy: Strategy | None = None,
    recipe: Recipe | None = None,
    earlier: Sequence[Curve] | None = None,
    warm: Warm | None = None,
) -> Prepared:
    """Read the data and check every setting.

    Args:
        settings: of the search.
        space: an object in place of ``settings.space``.
        strategy: an object in place of ``settings.strategy``.
        recipe: of a search that started already; otherwise the defaults for the data, changed by the settings.
        earlier: curves that its stopping rule began with, of a search that started already; ``None``: those that the
            results database holds now.
        warm: what it began with from other data sets, of a search that started already.

    Raises:
        UsageError: whatever does not fit; nothing has been written then.
    """
    if recipe is None:  # a new search; one that goes on has its defaults already
        settings = settings.settled()
    workers = _workers(settings)
    wire.tracking_uri(settings.tracking, settings.db)
    rule = wire.stopper(settings.stop, epochs=settings.epochs or EPOCHS, options=settings.section("stop"))
    if recipe is None:
        _check_rule(rule, settings)
    searched = space or (catalogue.load(settings.space) if settings.space != "auto" else None)
    found = wire.start(settings) if strategy is None else None
    start = found[1] if found else settings.start or None
    if found:  # a search's winner may change, what this search starts from does not
        settings = replace(settings, start=found[0])
    if searched and strategy is None:  # before the data: a typo should not cost the time to read them
        wire.strategy(settings.strategy, searched, options=settings.section("strategy"), start=start)
    given = tuple(map(parse_objective, settings.objective))
    dataset = read_data(settings)
    if recipe is None:
        _check_ranks(settings.width, len(dataset.train.y))
    searched = searched or catalogue.auto(dataset.kind)
    _check_space(searched, dataset)
    if found:
        _check_start(found[1], dataset)
    objectives = given or defaults.objectives(dataset.task, front=wire.own_start(strategy or settings.strategy))
    check_objectives(objectives, [*defaults.METRICS[dataset.task], *defaults.COSTS])
    if warm is None:
        usual = recipe or _recipe(settings, dataset)
        seeks = warming.wanted(settings, own_strategy=strategy is not None)
        warm = warming.warm(settings, dataset, searched, str(objectives[0]), usual) if seeks else warming.COLD
    recipe = recipe or _recipe(settings, dataset, warm)
    if settings.epochs is None:
        seconds, fitting = settings.hours * 3600, EPOCHS
        if not settings.ray:  # how fast this machine is says nothing of a cluster's workers
            fitting = epochs_within(seconds, searched, dataset, recipe, device=settings.device)
        settings = replace(settings, epochs=fitting)
    epochs = settings.epochs or EPOCHS
    if earlier is None:
        earlier = wire.earlier(
            settings,
            data=dataset.digest,
            space=searched.name,
            objective=objectives[0],
            epochs=epochs,
            averaging=recipe.averaging,
        )
    tried = settings.references and not wire.own_start(strategy or settings.strategy)
    # With several objectives a reference may be worth its training for another one than the sources' scores.
    alone = tried and len(objectives) == 1
    known = warming.known_references(searched, warm.sources) if alone else frozenset[str]()
    stopper = wire.stopper(
        settings.stop,
        epochs=epochs,
        options=settings.section("stop"),
        objectives=objectives,
        trials=settings.trials,
        seed=settings.seed,
        references=len(searched.references.keys() - known) if tried else 0,
        earlier=as_trials(earlier),
    )
    memory = devices.memory(workers, settings.device)
    part = largest_part(recipe, epochs, len(dataset.train.y), settings.width)
    task = Task(
        space=searched,
        recipe=recipe,
        data=dataset.digest,
        epochs=epochs,
        objectives=objectives,
        seed=settings.seed,
        limits=limits(settings),
        width=settings.width,
        widths=widths(settings, dataset, recipe, searched, workers),
        references=tried,
        known=known,
        inherit=settings.inherit,
        reuse=settings.reuse,
        assess=assessor(dataset, settings.max_params, part, memory, recomputed=devices.uses_gpu(settings.device)),
    )
    chosen = wire.strategy(
        strategy or settings.strategy,
        searched,
        seed=settings.seed,
        options=settings.section("strategy"),
        objectives=len(objectives),
        references=settings.references,
        shape=dataset.shape,
        outputs=dataset.outputs,
        max_params=settings.max_params,
        start=start,
        warm=warm.sources,
    )
    code = plugins.content([settings.strategy, *settings.stop.split("+")])
    facts = {"data": dataset.digest, "recipe": recipe.digest, "space": _trace(searched)}
    facts |= {name: text for name, text in (("code", code), ("warm", warm_digest(warm.sources))) if text}
    identity = settings.identity(**facts)
    return Prepared(settings, dataset, task, chosen, stopper, workers, identity, tuple(earlier), warm)


def _workers(settings: Settings) -> int:
    """Return how many workers there will be, checked against ranks, executor and device."""
    devices.check(settings.device)
    step_way.way()  # a wrong word would fail each trial alone
    roll.step_limit()  # otherwise told when the search has been written down
    workers = settings.workers or defaults.workers(settings.device)
    if settings.width > workers:
        raise UsageError(f"--ranks must be at most the number of workers, got {settings.width} of {workers}: --workers")
    if settings.executor == "inline" and settings.width > 1:
        raise UsageError(f"--executor inline trains on one rank, got --ranks {settings.width}: use --executor ray")
    cards = devices.gpus() if settings.device != "cpu" and not settings.ray else 0
    if 0 < cards < settings.width:
        raise UsageError(
            f"--ranks must be at most the number of GPUs, got {settings.width} of {cards}: --ranks {cards}"
        )
    return workers


def _recipe(settings: Settings, dataset: "Dataset", warm: Warm = warming.COLD) -> Recipe:
    data, elsewhere = (dataset.task, dataset.kind, dataset.shape), bool(settings.ray)
    precision = defaults.precision(*data, settings.device, elsewhere=elsewhere)
    usual = defaults.recipe(dataset.kind, dataset.shape, len(dataset.train.y), precision)
    base = make_recipe(warm.recipe, usual)
    recipe = make_recipe(settings.section("recipe"), base)
    check_augment(recipe.augment, dataset.kind)
    return recipe


def _check_space(space: SearchSpace, dataset: "Dataset") -> None:
    """Refuse a space for another kind of data, or one whose references do not decode."""
    kind = getattr(space, "kind", "any")
    if kind not in ("any", dataset.kind):
        raise UsageError(
            f"space {space.name} is for {kind} data, and {dataset.name} holds {dataset.kind}: --space auto"
        )
    for decisions in space.references.values():
        space.decode(decisions)


def _check_ranks(ranks: int, rows: int) -> None:
    """Refuse ranks that cannot have the 2 training samples each that batch norm needs."""
    most = rows // 2
    if ranks > most:
        remedy = f"--ranks {most}" if most else "bring more samples"
        raise UsageError(
            f"--ranks must be at most half of the training samples, 2 for each rank, got {ranks} for {rows}: {remedy}"
        )


def _check_rule(rule: Stopper, settings: Settings) -> None:
    """Refuse a rule that lets trials rest until all are there, where each next trial needs one that has completed."""
    if stepwise(settings.strategy) and isinstance(rule, Pauser):
        raise UsageError(
            f"strategy {settings.strategy} goes on from completed trials, which --stop {settings.stop} keeps until all "
            "trials are there: --stop none, or a rule that does not pause, as median"
        )


def _check_start(start: Topology, dataset: "Dataset") -> None:
    """Refuse a start that does not fit the data."""
    try:
        cost.cost(start, dataset.shape, dataset.outputs)
    except TopologyError as error:
        raise UsageError(f"the start does not fit {dataset.name}: {error}") from None


def _trace(space: SearchSpace) -> str:
    """Return what changes when a space decodes into other networks: digests of its references and some samples."""
    rng = np.random.default_rng(0)
    shown = [*space.references.values(), *(space.sample(rng) for _ in range(3))]
    return ",".join([space.name, *(digest(space.decode(decisions)) for decisions in shown)])


def read_data(settings: Settings) -> "Dataset":
    """Return the data set of the settings; a packed file is looked at whole, once while it stays the same.

    Raises:
        UsageError: no data, an unknown option, whatever reading refuses, or a packed file that is damaged.
    """
    from detol.workers.data import BUILTIN, read
    from detol.workers.data.packed.intact import intact

    if not settings.data:
        builtin = ", ".join(BUILTIN)
        raise UsageError(f"a search needs data: --data NAME|PATH, e.g. --data digits (built in: {builtin})")
    options = settings.section("data")
    known = [key for key in inspect.signature(read).parameters if key not in ("source", "target")]
    for key in options:
        if key not in known:
            raise unknown("option of data", key, known)
    dataset = read(settings.data, target=settings.target or None, **options)
    intact(dataset)  # results are stored under the digest that the file claims
    return dataset


def limits(settings: Settings) -> Limits:
    """Return the limits of the settings; 0 means none."""
    infinite = float("inf")
    return Limits(
        trials=infinite if settings.trials is None else settings.trials,
        seconds=settings.hours * 3600 or infinite,
        trial_seconds=settings.trial_minutes * 60 or infinite,
    )


def assessor(
    dataset: "Dataset", max_params: float, batch: int, memory: float, *, recomputed: bool = False
) -> Callable[[Candidate], Assessment]:
    """Return what says of a candidate what it costs, and whether it may be trained.

    Args:
        dataset: its shape and outputs size the network.
        max_params: largest number of parameters; 0: no bound.
        batch: samples of one step of one rank.
        memory: bytes that one worker has.
        recomputed: whether workers compute activations again where they do not fit.
    """
    shape, outputs = tuple(dataset.shape), dataset.outputs

    def assess(candidate: Candidate) -> Assessment:
        try:
            costs = cost.cost(candidate.topology, shape, outputs)
            needed = cost.memory(candidate.topology, shape, outputs, batch, recomputed=recomputed)
        except TopologyError as error:
            return Assessment({}, str(error))
        known = {name: float(getattr(costs, name)) for name in defaults.COSTS}
        if max_params and costs.params > max_params:
            over = {VIOLATION: costs.params / max_params - 1}
            return Assessment(known | over, f"{costs.params:,} parameters are over --max-params {max_params:,.0f}")
        if needed > memory * MEMORY_SHARE:
            over = {VIOLATION: needed / (memory * MEMORY_SHARE) - 1}
            reason = f"it needs about {needed / 2**20:,.0f} MiB, a worker has {memory / 2**20:,.0f}"
            return Assessment(known | over, reason)
        return Assessment(known)

    return assess
