"""The one place that names all concrete classes: from names and settings to running parts.

Each is imported when it is asked for, so that a command loads only what it uses.
"""

import importlib
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detol import plugins
from detol.config import Settings, runs_directory
from detol.errors import ResultsError, UsageError, unknown
from detol.search.protocols import Executor, SearchSpace, Stopper, Strategy
from detol.search.records import Candidate, Objective, Origin, State, Trial, parse_objective
from detol.search.task import Task
from detol.search.warm import WarmSource
from detol.strategies.options import checked

if TYPE_CHECKING:
    from detol.graph.topology import Topology
    from detol.results.audit import Audit
    from detol.results.earlier import Curve
    from detol.results.store import Database, SearchStore
    from detol.tracking.null import NullTracker
    from detol.tracking.tracker import MlflowTracker
    from detol.workers.data.dataset import Dataset

STRATEGIES = {
    "guided": "detol.strategies.guided.strategy:Guided",
    "random": "detol.strategies.random_search:RandomSearch",
    "local_search": "detol.strategies.local_search:LocalSearch",
    "evolution": "detol.strategies.evolution:AgeingEvolution",
    "nsga2": "detol.strategies.nsga2:NSGA2",
    "reinforce": "detol.strategies.reinforce:Reinforce",
    "ppo": "detol.strategies.ppo:PPO",
    "qlearning": "detol.strategies.qlearning:QLearning",
    "prune": "detol.strategies.pruning.strategy:Prune",
    "grow": "detol.strategies.grow:Grow",
    "generate": "detol.strategies.generate.strategy:Generate",
}
"""Strategies by name; also ``optuna:SAMPLER``, one for each sampler of Optuna, and ``prune:LEVEL``: at one level."""

STOPPERS = {
    "none": "detol.stopping.never:Never",
    "median": "detol.stopping.median:MedianStop",
    "plateau": "detol.stopping.plateau:Plateau",
    "asha": "detol.stopping.asha:Asha",
    "promote": "detol.stopping.promotion:PromotingAsha",
    "hyperband": "detol.stopping.hyperband:Hyperband",
    "pasha": "detol.stopping.pasha:Pasha",
    "curve": "detol.stopping.curve:CurveStop",
}
"""Stopping rules by name; ``promote+curve`` joins some: one of them may pause trials, any of them may stop one."""

LEARNS = "earlier"
"""Argument of the rules that learn from finished curves of earlier searches."""


def strategy(
    name: str | Strategy,
    space: SearchSpace,
    *,
    seed: int = 0,
    identity: Callable[[Candidate], Hashable] | None = None,
    options: Mapping[str, Any] | None = None,
    objectives: int = 1,
    references: bool = True,
    shape: Sequence[int] | None = None,
    outputs: int | None = None,
    max_params: float = 0,
    start: "Topology | str | None" = None,
    warm: Sequence[WarmSource] = (),
) -> Strategy:
    """Return the strategy of that name over a space; an object that keeps the protocol is returned as it is.

    Args:
        name: a name, ``FILE.py`` or ``FILE.py:NAME``, or an object.
        space: what is searched.
        seed: of its random numbers.
        identity: what makes two candidates the same one.
        options: a person gave, by name.
        objectives: how many scores each trial has.
        references: whether the space's references may be proposed.
        shape: of one sample of the data.
        outputs: of the networks.
        max_params: of a network that the search does not refuse; 0: no bound.
        start: what a strategy that changes one network starts from: a topology, ``largest`` or ``smallest``; ``None``:
            its own choice.
        warm: records of other data sets; a strategy that does not take them proposes the best of them first.

    What a strategy does not take it is not given.

    Raises:
        UsageError: an unknown name or option, or a value against its rule.
    """
    if not isinstance(name, str):
        if not isinstance(name, Strategy):
            raise UsageError(f"a strategy has ask and tell, got {type(name).__name__}")
        return name
    known: dict[str, Any] = {"seed": seed, "identity": identity}
    if name.startswith("optuna:"):
        made = _class("detol.strategies.optuna_sampler:OptunaSampler")
        chosen = {"objectives": objectives, **(options or {})}
        sampler = _strategy("optuna", made, chosen, space, sampler=name.removeprefix("optuna:"), **known)
        return _warmed(sampler, space, warm, identity)
    if plugins.is_file(name):
        colon, level, made = "", "", plugins.load(name, "strategy")
        known = {key: value for key, value in known.items() if key in inspect.signature(made).parameters}
    else:
        if name.partition(":")[0] not in STRATEGIES or (":" in name and not name.startswith("prune:")):
            raise unknown("strategy", name, [*STRATEGIES, "optuna:TPESampler", "prune:edges"])
        name, colon, level = name.partition(":")
        made = _class(STRATEGIES[name])
    chosen, taken = dict(options or {}), inspect.signature(made).parameters
    if "references" in taken:
        known["references"] = references and chosen.pop("references", True)
    if start is not None and "start" not in taken:
        raise UsageError(
            f"strategy {name} starts from no given topology: leave --start out, or use --strategy prune or grow"
        )
    facts = {"shape": shape, "outputs": outputs, "start": start, "max_params": max_params or None}
    known |= {key: value for key, value in facts.items() if key in taken and value is not None}
    known |= {"level": level} if colon else {}
    if "warm" in taken:
        return _strategy(name, made, chosen, space, **known, warm=warm)
    if warm and own_start(name):
        raise UsageError(f"strategy {name} starts from a network of its own: leave --warm out")
    return _warmed(_strategy(name, made, chosen, space, **known), space, warm, identity)


def _warmed(
    strategy: Strategy,
    space: SearchSpace,
    warm: Sequence[WarmSource],
    identity: Callable[[Candidate], Hashable] | None,
) -> Strategy:
    if not warm:
        return strategy
    from detol.strategies.warm_start import WarmStart

    return WarmStart(strategy, space, warm, identity=identity)


def own_start(strategy: str | Strategy) -> bool:
    """Return whether a strategy starts from a network of its own, so that references are not tried first."""
    if isinstance(strategy, str):
        if plugins.is_file(strategy):
            return bool(getattr(plugins.load(strategy, "strategy"), "own_start", False))
        place = STRATEGIES.get(strategy.partition(":")[0])
        return place is not None and bool(getattr(_class(place), "own_start", False))
    return bool(getattr(strategy, "own_start", False))


def start(settings: Settings) -> "tuple[str, Topology] | None":
    """Return the digest and the topology that ``settings.start`` means; ``None`` when the strategy is to choose.

    Raises:
        ResultsError: there is no such search or topology in the results database.
    """
    if settings.start in ("", "largest", "smallest"):
        return None
    from detol.results import places

    with database(settings.db, create=False) as opened, opened.read() as connection:
        found = places.topology(connection, settings.start)
    return found.digest, found.candidate.topology


def stopper(
    name: str | Stopper,
    *,
    epochs: int,
    options: Mapping[str, Any] | None = None,
    objectives: Sequence[Objective] = (),
    trials: int | None = None,
    seed: int = 0,
    references: int = 0,
    earlier: Sequence[Trial] = (),
) -> Stopper:
    """Return the stopping rule of that name for trials of ``epochs`` epochs; an object is returned as it is.

    Args:
        name: of a rule, or ``FILE.py``; or of several with ``+`` between them; each option goes to the rules that have
            it.
        epochs: of a training to its end.
        options: of the rules; ``audit_share`` is one of all of them: the share of the trials that run to their end
            whatever the rule says, by default 0.05 (``detol results audit``).
        objectives: of the search; with several of them rungs rank by fronts.
        trials: of the search, where known; the more there are, the more careful is a rule that guesses, and when all
            are there promotion stops waiting for better ones.
        seed: of the search.
        references: how many it tries first; with ``trials`` and ``seed`` they decide which trials the audit spares.
        earlier: finished trials of other searches with the same data, epochs and objective, for rules that learn from
            their curves.

    Raises:
        UsageError: an unknown name or option, or a value against its rule.
    """
    if not isinstance(name, str):
        return name
    given = dict(options or {})
    made = _rules(name)
    share = given.pop("audit_share", None)
    taken = {part: set(inspect.signature(each).parameters) for part, each in made.items()}
    fixed = {"epochs": epochs, "objectives": tuple(objectives), "trials": trials, LEARNS: tuple(earlier)}
    open_ = sorted(set().union(*taken.values()) - set(fixed))
    for key in given:
        if key not in open_:
            raise unknown(f"option of {name}", key, [*open_, "audit_share"])
    rules: list[Stopper] = [
        _make(
            part,
            each,
            {key: value for key, value in given.items() if key in taken[part]},
            **{key: value for key, value in fixed.items() if key in taken[part]},
        )
        for part, each in made.items()
    ]
    from detol.stopping.audited import SHARE, audited
    from detol.stopping.joined import joined

    if name == "none" and share is None:
        return rules[0]
    share = SHARE if share is None else share
    return audited(joined(rules), share=share, trials=trials, seed=seed, references=references)


def earlier(
    settings: Settings, *, data: str, space: str, objective: Objective, epochs: int, averaging: float = 0.0
) -> "tuple[Curve, ...]":
    """Return the finished curves of the results database that the stopping rule of a new search begins with.

    None where the rule does not learn from curves, or there is no database yet.

    Args:
        settings: name the rule and the database.
        data: digest of the data set.
        space: name of the space.
        objective: the primary one.
        epochs: of a training to its end.
        averaging: of the recipe.
    """
    if not any(LEARNS in inspect.signature(made).parameters for made in _rules(settings.stop).values()):
        return ()
    from detol.results.earlier import curves

    try:
        with database(settings.db, create=False) as opened, opened.read() as connection:
            metric = str(objective)
            return curves(connection, data=data, space=space, objective=metric, epochs=epochs, averaging=averaging)
    except ResultsError:
        return ()  # there is none yet; what else is wrong with it is said when the search opens it


def audit(store: "SearchStore", *, stop: str | None = None, orders: int = 100) -> "Audit":
    """Replay the stopping rule of a recorded search, or another one with its defaults, on the search's curves.

    Raises:
        UsageError: there was no rule, or nothing completed.
    """
    from detol.results.audit import audit as replay
    from detol.stopping.audited import Audited

    settings = Settings.from_dict({**store.settings["settings"], "name": ""})
    name = settings.stop if stop is None else stop
    if name == "none":
        raise UsageError(f"search {store.name!r} has no stopping rule to audit: --stop RULE says what one would cost")
    trials = store.trials()
    proposed = [trial for trial in trials if trial.candidate.origin is not Origin.RETRAIN]
    common: dict[str, Any] = {
        "epochs": settings.epochs,
        "objectives": [parse_objective(text) for text in store.settings["objectives"]],
        "trials": settings.trials,
        "seed": settings.seed,
        "references": sum(trial.candidate.named for trial in proposed),
    }
    from detol.results.earlier import as_trials, from_record

    common[LEARNS] = as_trials(from_record(store.settings.get(LEARNS, ())))
    own = stopper(settings.stop, options=settings.section("stop"), **common)
    spared = own.spares if isinstance(own, Audited) else lambda _: settings.stop == "none"
    options = {**(settings.section("stop") if stop is None else {}), "audit_share": 0}
    # Of a search that came to its bound all trials are there, though some have no curve to replay.
    if settings.trials and sum(trial.state is not State.REFUSED for trial in proposed) >= settings.trials:
        common["trials"] = sum(bool(trial.reports) for trial in proposed)
    return replay(trials, stopper(name, options=options, **common), spared=spared, orders=orders)


def _rules(name: str) -> dict[str, Any]:
    """Return the classes of the rules that a name stands for, by their own names.

    Raises:
        UsageError: an unknown name, or one that is given twice.
    """
    names = name.split("+")
    for part in names:
        if part not in STOPPERS and not plugins.is_file(part):
            raise unknown("stopper", part, STOPPERS)
        if names.count(part) > 1:
            raise UsageError(f"each rule is named once, got {name!r}")
    return {part: plugins.load(part, "stopper") if plugins.is_file(part) else _class(STOPPERS[part]) for part in names}


def _strategy(name: str, made: Any, options: Mapping[str, Any], space: SearchSpace, **fixed: Any) -> Strategy:
    from detol.strategies.foreign import foreign

    chosen: Strategy = _make(name, foreign(made, name) if plugins.is_file(name) else made, options, space, **fixed)
    return chosen


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _make(name: str, made: Any, options: Mapping[str, Any], /, *args: Any, **fixed: Any) -> Any:
    """Call a constructor with options a person gave, checked by name against its signature."""
    parameters = inspect.signature(made).parameters
    open_ = [key for key in parameters if key not in fixed and key != "space"]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key in options:
        if key not in open_ and (not takes_any or key in fixed):
            raise unknown(f"option of {name}", key, open_)
    return checked(name, parameters, options, lambda: made(*args, **fixed, **options))


def home(db: str) -> Path:
    """Return the directory of the runs: beside a SQLite database that was named, otherwise ``runs_directory()``."""
    path = db.removeprefix("sqlite:///")
    return Path(path).expanduser().resolve().parent if db and "://" not in path else runs_directory()


def database(db: str, *, create: bool = True) -> "Database":
    """Return the results database at a URL or path; empty: SQLite in the runs directory."""
    from detol.results.store import Database

    return Database(db or runs_directory() / "results.db", create=create)


def executor(settings: Settings, dataset: "Dataset", workers: int) -> Executor:
    """Return what runs the trials of a search: Ray's workers, or this process."""
    if settings.executor == "inline":
        from detol.execution.inline import InlineExecutor

        return InlineExecutor(dataset, device="cpu" if settings.device == "auto" else settings.device, threads=1)
    from detol.workers import devices
    from detol.workers.pool import RayExecutor

    widest = settings.width
    if settings.ranks == "auto" and not settings.ray:
        widest = min(workers, devices.gpus() or workers)
    return RayExecutor(dataset, workers=workers, ranks=widest, device=settings.device, address=settings.ray or None)


def tracker(
    settings: Settings,
    task: Task,
    identity: str,
    warn: Callable[[str], None],
    *,
    data: Mapping[str, Any] | None = None,
    workers: int = 0,
) -> "MlflowTracker | NullTracker":
    """Return the mirror of a search in MLflow, or one that does nothing when tracking is off.

    ``data`` describes the data set (``Dataset.describe``), ``workers`` is how many ranks can train at once.
    """
    uri = tracking_uri(settings.tracking, settings.db)
    if not uri:
        from detol.tracking.null import NullTracker

        return NullTracker()
    from detol.tracking.tracker import MlflowTracker

    return MlflowTracker(
        uri,
        settings.name,
        {**flat(settings), "space": task.space.name},
        recipe=asdict(task.recipe),
        objectives=task.objectives,
        identity=identity,
        data={"digest": task.data, "name": settings.data, "source": settings.data, **(data or {})},
        workers=workers,
        warn=warn,
    )


def flat(settings: Settings) -> dict[str, str | int | float | bool]:
    """Return settings as one level of names and values: lists joined, options as ``SECTION.KEY``."""
    values: dict[str, str | int | float | bool] = {}
    for name, value in settings.as_dict().items():
        if name == "options":
            values.update({f"{section}.{key}": str(v) for section, pairs in value.items() for key, v in pairs.items()})
        elif name != "tracking":  # it may hold a password
            values[name] = ",".join(value) if isinstance(value, list) else value
    return values


def tracking_uri(tracking: str, db: str) -> str:
    """Return the MLflow tracking URI; empty when tracking is off.

    Raises:
        UsageError: an address that MLflow cannot use.
    """
    if tracking == "off":
        return ""
    from detol.tracking.uri import check

    return check(tracking or f"sqlite:///{(home(db) / 'mlflow.db').resolve()}")


def ui_command(tracking: str, db: str) -> str:
    """Return the command that opens the MLflow UI on a search."""
    from detol.tracking.uri import ui_command as command

    uri = tracking_uri(tracking, db)
    return command(uri) if uri else "tracking is off"
