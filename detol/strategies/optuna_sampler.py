"""Any Optuna sampler over a space's decisions: ``optuna:TPESampler``, ``optuna:GPSampler`` ...

Optuna is imported when a strategy is made, not when this file is.
"""

import inspect
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from detol.errors import UsageError, unknown
from detol.search.option_types import check_types
from detol.search.protocols import SearchSpace
from detol.search.records import Candidate, Origin, State, Trial
from detol.strategies.base import Identity, Proposer, Told
from detol.strategies.options import whole
from detol.strategies.walking import steps, walk

if TYPE_CHECKING:
    import optuna

NUMERIC = ("CmaEsSampler", "QMCSampler")
"""Samplers that draw at random what they cannot work with: categories too, or not, by the release of Optuna."""
PLAIN = (bool, int, float, str, list, tuple, dict)
"""What a person can give on a command line or in a file."""


class OptunaSampler(Proposer):
    """Asks an Optuna sampler for each open choice as a categorical parameter.

    What the sampler suggests again is not proposed again: a known score is told to it from memory at once, and it is
    asked again; of what is pending or has failed it is told a failure.

    Args:
        space: what is searched.
        sampler: name of a class in ``optuna.samplers`` that needs no arguments.
        objectives: how many scores of a trial the sampler sees, >= 1 (samplers differ in what they can do with many).
        seed: of the sampler.
        identity: what makes two candidates the same one.
        options: further arguments of the sampler.

    Raises:
        UsageError: an unknown sampler, an option that it does not have, or a plain value where it takes a function or
            an object.

    Attributes:
        caution: what a person should know of the sampler, one line; empty where there is nothing.
    """

    tries = 8  # a repeat makes the study larger, and a Gaussian process slower
    childless = True

    def __init__(
        self,
        space: SearchSpace,
        sampler: str = "TPESampler",
        *,
        objectives: int = 1,
        seed: int = 0,
        identity: Identity | None = None,
        **options: Any,
    ) -> None:
        super().__init__(space, seed=seed, identity=identity)
        whole("objectives", objectives, 1)
        self._objectives = objectives
        with _quiet() as optuna:
            made = _make(sampler, seed, options)
            self.caution = caution(sampler)
            self._study = _study(optuna, made, ["maximize"] * objectives)
        self._numbers: dict[Hashable, int] = {}  # of the study's trials, for pending candidates
        self._values: dict[Hashable, Sequence[float] | None] = {}
        self._places: dict[int, int] = {}  # number of a trial told while PAUSED -> number of the study's trial

    def propose(self) -> Candidate | None:
        """Return what the sampler suggests; a repeat is answered from memory."""
        with _quiet() as optuna:
            trial = self._study.ask()
            decisions = walk(
                self.space,
                lambda choice, _: choice.options.index(trial.suggest_categorical(choice.name, choice.options)),
            )
            made = self.candidate(decisions, Origin.OPTUNA)
            if made is not None:
                self._numbers[self.identify(made)] = trial.number
            else:
                self._tell(optuna, trial.number, self._values.get(self.recall(decisions)))
        return made

    def learn(self, trials: Sequence[Trial]) -> None:
        """Tell the study; what was not asked for is added to it as a trial of its own."""
        with _quiet() as optuna:
            for told in self.told[-len(trials) :]:
                values = told.scores[: self._objectives] if told.scores else None
                self._values[told.identity] = values
                number = self._numbers.pop(told.identity, None)
                if number is not None:
                    self._tell(optuna, number, values)
                elif values is not None:
                    number = len(self._study.get_trials(deepcopy=False))
                    self._study.add_trial(self._foreign(optuna, told, values))
                if told.state is State.PAUSED and number is not None:
                    self._places[told.number] = number

    def relearn(self, changes: Sequence[tuple[Told, Told]]) -> None:
        """Put later scores in the place of earlier ones: a study's trials are final, so it is copied with them.

        A trial that has failed since keeps the score it had when it paused.
        """
        with _quiet() as optuna:
            trials = self._study.get_trials()
            moved = False
            for before, after in changes:
                self._values[after.identity] = values = after.scores[: self._objectives] if after.scores else None
                place = self._places[after.number]
                if after.state.final:
                    del self._places[after.number]
                if values is not None and after.scores != before.scores and trials[place].values is not None:
                    trials[place].values = list(values)
                    moved = True
            if moved:
                self._study = _study(optuna, self._study.sampler, self._study.directions)
                self._study.add_trials(trials)

    def _tell(self, optuna: Any, number: int, values: Sequence[float] | None) -> None:
        failed = values is None or len(values) < self._objectives
        state = optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE
        self._study.tell(number, None if failed else values, state=state)

    def _foreign(self, optuna: Any, told: Told, values: Sequence[float]) -> "optuna.trial.FrozenTrial":
        taken = [(choice, choice.options[index]) for choice, _, index in steps(self.space, told.decisions)]
        return optuna.trial.create_trial(
            params={choice.name: option for choice, option in taken},
            distributions={
                choice.name: optuna.distributions.CategoricalDistribution(choice.options) for choice, _ in taken
            },
            values=list(values),
        )


def samplers() -> list[str]:
    """Return the names of Optuna's samplers that need no arguments."""
    with _quiet() as optuna:
        found = []
        for name in optuna.samplers.__all__:
            kind = getattr(optuna.samplers, name)
            if inspect.isclass(kind) and issubclass(kind, optuna.samplers.BaseSampler) and not inspect.isabstract(kind):
                needed = [
                    parameter
                    for parameter in inspect.signature(kind).parameters.values()
                    if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
                ]
                found += [] if needed else [name]
        return found


def caution(name: str) -> str:
    """Return one line on a sampler that draws categorical parameters, which all decisions are here, at random."""
    if not _uniform(name):
        return ""
    return f"Optuna's {name} cannot choose among categories, which all decisions are: it searches at random"


@cache
def _uniform(name: str) -> bool:
    """Return whether a sampler would draw categorical parameters, which all decisions are here, at random."""
    if name not in NUMERIC:
        return False
    with _quiet() as optuna:
        study = optuna.create_study(sampler=getattr(optuna.samplers, name)())
        choice = optuna.distributions.CategoricalDistribution((0, 1))
        study.add_trial(optuna.trial.create_trial(params={"x": 0}, distributions={"x": choice}, value=0.0))
        return not study.sampler.infer_relative_search_space(study, study.get_trials()[0])


def _study(optuna: Any, sampler: Any, directions: Sequence[Any]) -> Any:
    """Return a study whose ``stop`` does nothing: samplers that saw everything call it, and it is of ``optimize``."""
    made = optuna.create_study(sampler=sampler, directions=directions)
    made.stop = lambda: None
    return made


def _make(name: str, seed: int, options: dict[str, Any]) -> Any:
    import optuna

    known = samplers()
    if name not in known:
        raise unknown("Optuna sampler", name, known)
    kind = getattr(optuna.samplers, name)
    takes = inspect.signature(kind).parameters
    for option in options:
        if option not in takes:
            raise unknown(f"option of {name}", option, takes)
    check_types(name, takes, options)
    for option, value in options.items():
        if isinstance(value, PLAIN) and not _takes_plain(takes[option]):
            raise UsageError(
                f"option {option} of {name} is a function or an object ({takes[option].annotation}), which only Python "
                f"can give: leave it out, got {value!r}"
            )
    try:
        return kind(**({"seed": seed} if "seed" in takes else {}), **options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Optuna's {name} refuses its options: {' '.join(str(error).split())}") from None


def _takes_plain(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter takes values that ``check_types`` knows, or says nothing of what it takes."""
    declared = parameter.annotation
    text = declared.__name__ if isinstance(declared, type) else str(declared)
    kinds = {kind.strip() for kind in text.split("|")}
    return declared is parameter.empty or kinds <= {"bool", "int", "float", "str", "None"}


@contextmanager
def _quiet() -> Iterator[Any]:
    # Optuna logs every trial and warns of experimental features: both are of no use here, and are silenced here alone.
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)
