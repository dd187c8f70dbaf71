"""The settings of a search: defaults, a TOML file, flags and Python arguments all end here and mean the same."""

import hashlib
import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from detol.errors import UsageError, unknown

SECTIONS = ("strategy", "stop", "recipe", "data")
"""What ``--set SECTION.KEY=VALUE`` (and ``[set]`` in a TOML file) may change."""

DEFAULT_STRATEGY = "guided"

EPOCHS = 27
"""Of a training to its end, unless time is short: 3 x 3 x 3, for rungs that keep a third each."""

THRIFT = 0.5
"""Power of the price of a network by which the guided strategy divides, where time is the bound."""

TRIALS = 30
"""Of a search that nothing else bounds."""

REUSE = ("always", "same-seed", "never")
"""What may answer from other searches: results of any seed, of the same seed, or none."""

STEPWISE = ("prune", "grow")
"""Strategies whose every trial goes on from another one: by default none is stopped early."""


def stepwise(strategy: str) -> bool:
    """Return whether the strategy of that name is one of ``STEPWISE``, at whatever level."""
    return strategy.partition(":")[0].lower() in STEPWISE


def runs_directory() -> Path:
    """Return where results, MLflow's store and weights live: ``DETOL_RUNS``, or ``./detol-runs``."""
    return Path(os.environ.get("DETOL_RUNS", "detol-runs"))


APART = ("name", "trials", "hours", "trial_minutes", "workers", "db", "tracking", "ray", "device", "executor", "data")
"""Settings that do not decide which trials a search makes."""


@dataclass(frozen=True)
class Settings:
    """Everything a person may set of a search.

    Args:
        data: a built-in name or a path (``detol data describe`` shows what is understood).
        target: column of tables that is predicted: a name, ``last``, or empty for the format's own rule.
        space: a name, a ``FILE.py``, or ``auto``: by the data's shape.
        strategy: a name, ``optuna:SAMPLER``, ``prune:LEVEL``, or a file that gives one: ``FILE.py[:NAME]``.
        start: what a strategy that changes one network starts from: a digest, a search's name (its winner), a trial
            as NAME/NUMBER, or ``largest`` or ``smallest``: of the space; empty: the strategy's own choice.
        stop: rule for early stopping, by name or ``FILE.py[:NAME]``, several joined by ``+``; by default ``none`` for
            strategies in ``STEPWISE``.
        trials: how many, reused ones included; >= 1. By default ``TRIALS``, or as many as ``hours`` allow.
        epochs: of a training to the end; >= 1. By default ``EPOCHS``, or fewer where ``hours`` leave no time for them.
        hours: of consumed time; 0: no bound.
        trial_minutes: one attempt of a trial may take; 0: no bound.
        workers: how many train side by side; 0: one for each CPU core or GPU.
        ranks: workers that train one trial together: a number <= workers, or ``auto``: for each trial what lets the
            search end soonest (:mod:`detol.scaling.auto`), by seconds that were measured, so that it does not repeat to
            the bit.
        objective: metrics, the first is the primary one; ``METRIC:min`` minimises; empty: by the task.
        seed: of the search.
        name: unique; empty: made from the data's name.
        db: URL or path of the results database; empty: SQLite in the runs directory.
        tracking: MLflow tracking URI, ``off``, or empty: SQLite in the runs directory.
        references: whether the space's reference topologies are tried first; of those that sources of a warm start
            hold, the best of each source alone, and those that cost no training.
        inherit: how a candidate takes over the weights of a trained parent: ``match`` (tensors of equal shape),
            ``morph`` (also cut, padded and fitted, keeping the function as far as can be), or ``off``. Strategies in
            ``STEPWISE`` say so themselves.
        warm: what it begins with from other data sets: ``auto`` (the nearest ones in the results database), ``off``, or
            names of searches; empty: ``auto`` for the guided strategy, ``off`` for others.
        reuse: which results of other searches answer: ``always``, ``same-seed`` (of the training: searches of the same
            seed), or ``never``.
        max_params: candidates with more parameters are refused; 0: no bound.
        device: ``auto``, ``cpu`` or ``cuda``.
        ray: address of a Ray cluster; empty: a local one.
        executor: ``ray``, or ``inline`` (in this process, for a debugger).
        metrics: ``PORT`` or ``HOST:PORT`` where Prometheus finds the search's metrics; empty: nowhere.
        options: by section (``strategy``, ``stop``, ``recipe``, ``data``), settings of its own.
    """

    data: str = ""
    target: str = ""
    space: str = "auto"
    strategy: str = DEFAULT_STRATEGY
    start: str = ""
    stop: str = "promote"
    trials: int | None = None
    epochs: int | None = None
    hours: float = 0.0
    trial_minutes: float = 0.0
    workers: int = 0
    ranks: str = "1"
    objective: tuple[str, ...] = ()
    seed: int = 0
    name: str = ""
    db: str = ""
    tracking: str = ""
    references: bool = True
    inherit: str = "off"
    warm: tuple[str, ...] = ()
    reuse: str = "always"
    max_params: float = 0
    device: str = "auto"
    ray: str = ""
    executor: str = "ray"
    metrics: str = ""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = {
            "trials": (self.trials is None or self.trials >= 1, ">= 1"),
            "epochs": (self.epochs is None or self.epochs >= 1, ">= 1"),
            "hours": (self.hours >= 0, ">= 0"),
            "trial_minutes": (self.trial_minutes >= 0, ">= 0"),
            "workers": (self.workers >= 0, ">= 1, or 0 for one for each core or GPU"),
            "max_params": (self.max_params >= 0, ">= 0"),
            "seed": (self.seed >= 0, ">= 0"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                raise UsageError(f"--{name.replace('_', '-')} must be {rule}, got {getattr(self, name)!r}")
        choices = {
            "device": ("auto", "cpu", "cuda"),
            "executor": ("ray", "inline"),
            "inherit": ("off", "match", "morph"),
            "reuse": REUSE,
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        for section in self.options:
            if section not in SECTIONS:
                raise unknown("section of --set", section, SECTIONS)
        if self.ranks != "auto" and not (self.ranks.isascii() and self.ranks.isdecimal() and int(self.ranks) >= 1):
            raise UsageError(f"--ranks must be auto or a whole number >= 1, got {self.ranks!r}")
        if len(self.warm) > 1 and not {"auto", "off"}.isdisjoint(self.warm):
            raise UsageError(f"--warm is auto, off, or names of searches, not both, got {' '.join(self.warm)}")
        check_name(self.name)

    def settled(self) -> "Settings":
        """Return the settings with the defaults that depend on others taken.

        Without a bound in hours there are ``TRIALS`` trials of ``EPOCHS`` epochs. With one there is no bound on trials,
        their epochs are left to :mod:`detol.calibrate`, and the guided strategy looks at what a network costs to train.
        """
        made = self
        if not made.hours:
            made = replace(made, trials=made.trials or TRIALS, epochs=made.epochs or EPOCHS)
        if made.hours and made.strategy == "guided" and "thrift" not in made.section("strategy"):
            options = {**made.options, "strategy": {**made.section("strategy"), "thrift": THRIFT}}
            made = replace(made, options=options)
        return made

    @property
    def width(self) -> int:
        """Ranks of each trial; with ``auto`` the least that one has."""
        return 1 if self.ranks == "auto" else int(self.ranks)

    def section(self, name: str) -> dict[str, Any]:
        """Return the options of one section."""
        return dict(self.options.get(name, {}))

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON can hold, and ``from_dict`` reads; without ``db``, which may hold a password."""
        return {
            **asdict(self),
            "objective": list(self.objective),
            "warm": list(self.warm),
            "options": {k: dict(v) for k, v in self.options.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Settings":
        """Read what ``as_dict`` wrote; what a later version added is left out."""
        known = {f.name for f in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**{**kept, **{name: tuple(kept.get(name, ())) for name in ("objective", "warm")}})

    def identity(self, **facts: str) -> str:
        """Return a digest of all that decides which trials a search makes, in which order.

        Two searches of equal identity are the same search run twice; name, budget, workers and addresses do not count.
        ``facts`` add what settings only point to, e.g. the content hash of the data.
        """
        apart = (
            "name",
            "trials",
            "hours",
            "workers",
            "db",
            "tracking",
            "ray",
            "device",
            "executor",
            "metrics",
            "data",
            "trial_minutes",
            "warm",  # what was found counts, as a fact
        )
        kept = {name: value for name, value in self.as_dict().items() if name not in apart}
        if kept["reuse"] == "always":  # as before there was a choice, so that older searches are still known
            del kept["reuse"]
        # As before widths were chosen, when ``auto`` was the default and meant one.
        kept["ranks"] = {"1": "auto", "auto": "chosen"}.get(self.ranks, self.ranks)
        text = json.dumps({**kept, "facts": facts}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_name(name: str) -> None:
    """Refuse names of searches that cannot be a folder's name.

    Raises:
        UsageError: the name has other characters than letters, digits, ``.``, ``_``, ``-``, or over 80 of them.
    """
    if name and (len(name) > 80 or not name[0].isalnum() or not all(c.isalnum() or c in "._-" for c in name)):
        raise UsageError(f"a search's name is letters, digits, '.', '_' and '-', 80 at most, got {name!r}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file: keys as the flags, with ``_`` for ``-``; a table ``[set]`` for the sections.

    Raises:
        UsageError: no such file, not TOML, or an unknown key.
    """
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    values = {name.replace("-", "_"): value for name, value in values.items()}
    options = _sections(values.pop("set", {}))
    if options is None:
        raise UsageError(f"{path}: [set] holds SECTION.KEY = VALUE, e.g. strategy.population = 20")
    return {**typed(values, f"{path}: "), **({"options": options} if options else {})}


def _sections(given: Any) -> dict[str, dict[str, Any]] | None:
    """Return options by section; ``"strategy.population" = 20`` says what it says without quotes. None: not such."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in given.items() if isinstance(given, dict) else [("", given)]:
        section, dot, key = name.partition(".")
        if dot and section and key:
            sections.setdefault(section, {})[key] = value
        elif not dot and isinstance(value, dict):
            sections.setdefault(name, {}).update(value)
        else:
            return None
    return sections


def typed(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return settings with each value of its setting's type.

    Raises:
        UsageError: an unknown name, or a value of another type.
    """
    known = {f.name: f for f in fields(Settings) if f.name != "options"}
    for name in values:
        if name not in known:
            raise unknown(f"setting{f' in {where[:-2]}' if where else ''}", name, known)
    # A setting whose default depends on others is a whole number.
    defaults = {name: 0 if known[name].default is None else known[name].default for name in values}
    return {name: _typed(f"{where}{name}", value, defaults[name]) for name, value in values.items()}


def _typed(what: str, value: Any, default: Any) -> Any:
    """Return a TOML value as the setting's type, or refuse it."""
    if isinstance(default, tuple):
        parts = [value] if isinstance(value, str) else value
        if isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts):
            return tuple(parts)
    elif isinstance(default, str) and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    elif isinstance(default, float | int) and not isinstance(default, bool):
        number = isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
        if number and (isinstance(default, float) or value == int(value)):
            return type(default)(value)
    elif not isinstance(default, bool | str) or type(value) is type(default):
        return value
    raise UsageError(f"{what} has the wrong type: {value!r}")


def parse_sets(pairs: list[str]) -> dict[str, dict[str, Any]]:
    """Read ``SECTION.KEY=VALUE`` pairs; a value is JSON where it can be, otherwise text.

    Raises:
        UsageError: a pair of another form.
    """
    options: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        section, dot, key = path.partition(".")
        if not equals or not dot or not key:
            raise UsageError(f"--set takes SECTION.KEY=VALUE, e.g. strategy.population=20, got {pair!r}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or a number or a nesting beyond what Python reads
            value = text
        options.setdefault(section, {})[key] = value
    return options


def settings(
    file: Path | None = None, options: Mapping[str, Mapping[str, Any]] | None = None, **flags: Any
) -> Settings:
    """Return the settings of defaults, then a TOML file, then flags (``None``: not given); later ones win.

    Raises:
        UsageError: a setting against its rule, or one that the strategy would not heed.
    """
    values = read_toml(file) if file else {}
    values.update({name: value for name, value in flags.items() if value is not None})
    merged = {section: dict(pairs) for section, pairs in values.pop("options", {}).items()}
    for section, pairs in (options or {}).items():
        merged.setdefault(section, {}).update(pairs)
    strategy = str(values.get("strategy", ""))
    if "stop" not in values and stepwise(strategy):
        values["stop"] = "none"
    if values.get("inherit") in ("off", "match") and stepwise(strategy):
        raise UsageError(
            f"strategy {strategy} takes over weights by its own rule, got --inherit {values['inherit']}: leave it out"
        )
    if "warm" in values:
        values["warm"] = tuple(name for part in values["warm"] for name in part.split(",") if name)
    made = Settings(**values)
    return replace(made, options=merged)
