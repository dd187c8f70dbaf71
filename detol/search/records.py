"""The records of a search. All are frozen; a change is a new record (``dataclasses.replace``)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from detol.errors import UsageError
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.spaces.decisions import Decisions

INHERITED = "inherited_from"
"""Fact of a trial (``Trial.extra``): the number of the trial of its search whose weights it started from, as text."""

TIE_BREAK = "val_log_loss"
"""Metric by which one of two trials of equal score is better: the lower one. On few validation samples many have the
same accuracy, but not the same probabilities."""

CONTENDS = "contends"
"""Fact of a reference that contends (:class:`~detol.search.contest.Contest`) in a search that time bounds."""


class Origin(StrEnum):
    """How a candidate came about."""

    REFERENCE = "reference"
    SAMPLE = "sample"
    MUTATE = "mutate"
    CROSS = "cross"
    POLICY = "policy"
    GUIDED = "guided"
    GENERATE = "generate"
    OPTUNA = "optuna"
    WARM = "warm"
    GROW = "grow"
    PRUNE = "prune"
    RETRAIN = "retrain"


class State(StrEnum):
    """Where a trial stands. All but RUNNING and PAUSED are final."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    DIVERGED = "diverged"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    REFUSED = "refused"

    @property
    def final(self) -> bool:
        """Whether the trial has ended."""
        return self not in (State.RUNNING, State.PAUSED)

    @property
    def scored(self) -> bool:
        """Whether a trial in this state may carry a score: it trained as far as it was asked to."""
        return self in (State.COMPLETED, State.STOPPED, State.PAUSED)


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric and the direction in which it is better.

    ``score`` converts a metric to the inside of detol, where more is better.
    """

    metric: str
    minimise: bool = False

    def score(self, value: float) -> float:
        """Return the value so that more is better; the same call converts back."""
        return -value if self.minimise else value

    def __str__(self) -> str:
        """Return ``metric`` or ``metric:min``, as the command line takes it."""
        return f"{self.metric}:min" if self.minimise else self.metric


@dataclass(frozen=True)
class Transfer:
    """How a child takes weights over from a trained parent.

    Nodes are named as in the two topologies as they were proposed (not normalised). A unit is an output channel of a
    convolution or an output of a dense layer, counted from 0.

    Args:
        parent: number of the parent's trial in the same search; it is among ``Candidate.parents``.
        nodes: child's node -> parent's node, for those that correspond. Children's nodes that are not here start fresh
            (or as an identity, where the rule says so). The input, the output and the head correspond anyway.
        units: child's node -> for each of its units the parent's unit that it is a copy of. A node that is absent keeps
            all its units in order. Fewer than the parent's prunes; a unit named k times is widened (Net2Wider, Chen et
            al. 2016, arXiv 1511.05641, section 2.2), what reads it being divided by k.
        folded: child's node -> (parent's unit that is gone, its constant output): that moves into what reads it.
        merged: child's node -> (parent's unit that is gone, parent's unit that stands for it, factor): what reads the
            gone unit is added, times the factor, to what reads the one that stays.
        optimiser: whether the optimiser's state is taken over (and cut alike) as well.
        rule: ``morph``, or ``match``: tensors of equal shape are copied, all else starts fresh (``units`` and what
            follows them are ignored).
    """

    parent: int
    nodes: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    folded: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    merged: Mapping[str, tuple[tuple[int, int, float], ...]] = field(default_factory=dict)
    optimiser: bool = False
    rule: str = "morph"


@dataclass(frozen=True)
class Candidate:
    """A topology to try.

    Args:
        decisions: what the space decoded into ``topology``.
        topology: the network.
        origin: how it came about.
        parents: numbers of the trials of the same search that it derives from (none, one, or two for a crossing).
        note: for a reference, its name in the space; for a winner that is trained from scratch, which trial that was;
            otherwise empty.
        transfer: which weights of a parent it starts from; ``None``: from scratch, or as ``--inherit`` says.
    """

    decisions: Decisions
    topology: Topology
    origin: Origin
    parents: tuple[int, ...] = ()
    note: str = ""
    transfer: Transfer | None = None

    @property
    def named(self) -> bool:
        """Whether the search itself tries it, no strategy proposed it: a reference, or a winner from scratch."""
        return self.origin is Origin.RETRAIN or (self.origin is Origin.REFERENCE and bool(self.note))

    @cached_property
    def digest(self) -> str:
        """The canonical identity of the topology (computed once, then kept)."""
        return digest(self.topology)


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics after one epoch.

    Args:
        epoch: how many epochs the trial has trained, counted from its start (1 after the first).
        metrics: by name, in natural units (``val_accuracy`` in [0, 1], losses in nats, ``val_mse`` in squared target
            units ...); may hold non-finite values.
        seconds: time this epoch took where it ran (training and validation), in seconds.
    """

    epoch: int
    metrics: Mapping[str, float]
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.epoch < 1:
            raise ValueError(f"an epoch is counted from 1, got {self.epoch}")


@dataclass(frozen=True)
class Trial:
    """One candidate under one recipe in one search; a state and a learning curve.

    Args:
        number: from 0, unique in its search, never given again.
        candidate: what is tried.
        state: where it stands.
        epochs: the fidelity asked for: epochs of a training to the end (the length of its schedule).
        seed: of its initial weights and its shuffling; from the search's seed and the digest.
        width: ranks that train it together.
        reports: the learning curve, by ascending epoch.
        curve: the primary score after each report (more is better; NaN where not finite), as long as ``reports``.
        scores: all objectives after the last report, more is better; ``None`` until there is one, and for ever when
            the state cannot carry a score (``State.scored``) or a value is not finite.
        reason: why it ended as it did, one line; empty for COMPLETED.
        attempt: 1, or 2 after a fault of the machine.
        seconds: consumed where it ran, all attempts.
        reused: ``SEARCH/NUMBER`` of the earlier trial whose result answers this one; empty when it was trained here.
        weights: where its weights are kept, relative to the directory of the runs; empty when they are not. Of a trial
            that has not ended: its last checkpoint.
        extra: further facts (device, actor, bytes sent ...).
    """

    number: int
    candidate: Candidate
    state: State
    epochs: int
    seed: int = 0
    width: int = 1
    reports: tuple[Report, ...] = ()
    curve: tuple[float, ...] = ()
    scores: tuple[float, ...] | None = None
    reason: str = ""
    attempt: int = 1
    seconds: float = 0.0
    reused: str = ""
    weights: str = ""
    extra: Mapping[str, str | float | int] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The primary score, more is better; minus infinity when there is none, so that it never wins."""
        return self.scores[0] if self.scores and math.isfinite(self.scores[0]) else -math.inf

    @property
    def tie_break(self) -> float:
        """What decides between equal scores, more is better; minus infinity when its last report does not say."""
        value = -self.reports[-1].metrics.get(TIE_BREAK, math.inf) if self.reports else -math.inf
        return value if math.isfinite(value) else -math.inf

    @property
    def digest(self) -> str:
        """The canonical identity of its topology."""
        return self.candidate.digest

    @property
    def inherited(self) -> str:
        """Number of the trial whose weights it started from; empty for a training from scratch."""
        return str(self.extra.get(INHERITED, ""))

    @property
    def epoch(self) -> int:
        """Epochs trained so far."""
        return self.reports[-1].epoch if self.reports else 0


@dataclass(frozen=True, slots=True)
class Job:
    """What an executor is asked to run: one attempt of one trial.

    Args:
        number: of the trial.
        candidate: its topology is what is trained.
        recipe: how.
        epochs: how many epochs, >= 1.
        seed: of weights and shuffling.
        width: ranks, >= 1.
        limit: seconds after which the attempt ends as TIMED_OUT; infinite by default.
        attempt: 1 or 2.
        until: the epoch after which it pauses, in [1, epochs]; 0: it does not.
        checkpoint: where it goes on (what an earlier ``Ended`` of it in state PAUSED carried); ``None``: at the start.
        parent: the parent's topology and trained weights, or the checkpoint of one that has not come to its end, to be
            taken over as ``candidate.transfer`` says.
        measures: what is measured of the trained network for the strategy, by name; the results are in the extra
            facts of the end, as JSON under the same names.
    """

    number: int
    candidate: Candidate
    recipe: Recipe
    epochs: int
    seed: int
    width: int = 1
    limit: float = math.inf
    attempt: int = 1
    until: int = 0
    checkpoint: bytes | None = None
    parent: tuple[Topology, bytes] | None = None
    measures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """An epoch of a trial is over."""

    number: int
    report: Report


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt of a trial is over; nothing more of this attempt follows.

    Args:
        number: of the trial.
        state: a final state, or PAUSED.
        reason: one line; empty for COMPLETED and PAUSED.
        weights: the trained weights as safetensors bytes, where there are any (rank 0 of a COMPLETED or STOPPED trial);
            of a PAUSED one the whole checkpoint, from which another job goes on.
        extra: further facts for the record.
    """

    number: int
    state: State
    reason: str = ""
    weights: bytes | None = None
    extra: Mapping[str, str | float | int] = field(default_factory=dict)


Event: TypeAlias = Reported | Ended


class Verdict(StrEnum):
    """What a stopper says after a report. PAUSE: only at a milestone (see ``protocols.Pauser``)."""

    CONTINUE = "continue"
    PAUSE = "pause"
    STOP = "stop"


def parse_objective(text: str) -> Objective:
    """Read ``METRIC``, ``METRIC:min`` or ``METRIC:max``.

    Losses and costs (``val_loss``, ``val_log_loss``, ``val_mse``, ``params``, ``multiply_adds``, ``activation_bytes``,
    ``seconds``) are minimised unless ``:max`` says otherwise; all else is maximised.

    Raises:
        UsageError: another direction.
    """
    metric, _, direction = text.partition(":")
    if direction not in ("", "min", "max"):
        raise UsageError(f"an objective is METRIC, METRIC:min or METRIC:max, got {text!r}")
    falls = metric.endswith(("loss", "mse")) or metric in ("params", "multiply_adds", "activation_bytes", "seconds")
    return Objective(metric, minimise=direction == "min" or (falls and not direction))
