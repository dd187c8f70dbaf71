"""From settings to what a search needs: read and checked before anything is written or started."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from detol import defaults, wire
from detol.config import Settings
from detol.errors import TopologyError, UsageError
from detol.graph import cost
from detol.search.limits import Limits
from detol.search.protocols import SearchSpace, Stopper, Strategy
from detol.search.recipe import make_recipe
from detol.search.records import Candidate, parse_objective
from detol.search.scoring import check_objectives
from detol.search.task import Assessment, Task
from detol.spaces import catalogue

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

MEMORY_SHARE = 0.8
"""Share of a worker's memory that the estimate of a candidate may take."""


@dataclass(frozen=True)
class Prepared:
    """A search that can start: its settings, data, task, strategy and stopper, all checked.

    ``identity`` is equal for searches that try the same candidates in the same order.
    """

    settings: Settings
    dataset: "Dataset"
    task: Task
    strategy: Strategy
    stopper: Stopper
    workers: int
    identity: str


def prepare(settings: Settings, *, space: SearchSpace | None = None, strategy: Strategy | None = None) -> Prepared:
    """Read the data and check every setting.

    Args:
        settings: of the search.
        space: an object in place of ``settings.space``.
        strategy: an object in place of ``settings.strategy``.

    Raises:
        UsageError: whatever does not fit; nothing has been written then.
    """
    workers = settings.workers or defaults.workers()
    if settings.width > workers:
        raise UsageError(f"--ranks must be at most the number of workers, got {settings.width} of {workers}: --workers")
    made = wire.stopper(settings.stop, epochs=settings.epochs, options=settings.section("stop"))
    searched = space or (catalogue.load(settings.space) if settings.space != "auto" else None)
    if searched and strategy is None:  # before the data: a typo should not cost the time to read them
        wire.strategy(settings.strategy, searched, options=settings.section("strategy"))
    given = tuple(map(parse_objective, settings.objective))
    dataset = read_data(settings)
    searched = searched or catalogue.auto(dataset.kind)
    objectives = given or defaults.objectives(dataset.task)
    check_objectives(objectives, [*defaults.METRICS[dataset.task], *defaults.COSTS])
    base = defaults.recipe(dataset.kind, dataset.shape, len(dataset.train.y))
    recipe = make_recipe(settings.section("recipe"), base)
    if recipe.augment and dataset.kind != "image":
        raise UsageError(
            f"augmentation is for images, and {dataset.name} holds {dataset.kind}: leave recipe.augment out"
        )
    task = Task(
        space=searched,
        recipe=recipe,
        data=dataset.digest,
        epochs=settings.epochs,
        objectives=objectives,
        seed=settings.seed,
        limits=limits(settings),
        width=settings.width,
        references=settings.references,
        assess=assessor(dataset, settings.max_params, recipe.batch_size // settings.width, wire.worker_memory(workers)),
    )
    chosen = wire.strategy(
        strategy or settings.strategy,
        searched,
        seed=settings.seed,
        options=settings.section("strategy"),
        objectives=len(objectives),
    )
    identity = settings.identity(data=dataset.digest, recipe=recipe.digest, space=searched.name)
    return Prepared(settings, dataset, task, chosen, made, workers, identity)


def read_data(settings: Settings) -> "Dataset":
    """Return the data set of the settings."""
    from detol.workers.data import BUILTIN, read

    if not settings.data:
        raise UsageError(f"a search needs data: --data NAME|PATH, e.g. --data digits (built in: {', '.join(BUILTIN)})")
    return read(settings.data, target=settings.target or None, **settings.section("data"))


def limits(settings: Settings) -> Limits:
    """Return the limits of the settings; 0 means none."""
    infinite = float("inf")
    return Limits(
        trials=settings.trials,
        seconds=settings.hours * 3600 or infinite,
        trial_seconds=settings.trial_minutes * 60 or infinite,
    )


def assessor(dataset: "Dataset", max_params: float, batch: int, memory: float) -> Callable[[Candidate], Assessment]:
    """Return what says of a candidate what it costs, and whether it may be trained.

    Args:
        dataset: its shape and outputs size the network.
        max_params: largest number of parameters; 0: no bound.
        batch: samples of one step of one rank.
        memory: bytes that one worker has.
    """
    shape, outputs = tuple(dataset.shape), dataset.outputs

    def assess(candidate: Candidate) -> Assessment:
        try:
            costs = cost.cost(candidate.topology, shape, outputs)
            needed = cost.memory(candidate.topology, shape, outputs, batch)
        except TopologyError as error:
            return Assessment({}, str(error))
        known = {name: float(getattr(costs, name)) for name in defaults.COSTS}
        if max_params and costs.params > max_params:
            return Assessment(known, f"{costs.params:,} parameters are over --max-params {max_params:,.0f}")
        if needed > memory * MEMORY_SHARE:
            return Assessment(known, f"it needs about {needed / 2**20:,.0f} MiB, a worker has {memory / 2**20:,.0f}")
        return Assessment(known)

    return assess


def names(objectives: Sequence[object]) -> list[str]:
    """Return objectives as the command line takes them."""
    return [str(objective) for objective in objectives]
