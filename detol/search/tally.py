"""Counts of a running search: what progress, status and summary show."""

from collections.abc import Collection
from dataclasses import dataclass, field

from detol.search.records import Origin, State, Trial
from detol.search.scoring import better
from detol.search.spared import spared, trained


@dataclass(slots=True)
class Tally:
    """Counts and best trials of one search, brought up to date trial by trial.

    Attributes:
        trials: how many there are, refused ones left out.
        trained: trained here, to the end or not; failures included.
        reused: answered from the database.
        stopped: ended early by the stopper.
        failed: FAILED, OUT_OF_MEMORY, DIVERGED, TIMED_OUT or LOST.
        refused: over a limit, never dispatched.
        epochs: trained here.
        spared: epochs that stopping left out.
        answered: epochs that reuse answered.
        continued: of the trained ones, those that went on from a checkpoint of another search.
        paused: resting now; they are in none of the other counts.
        awaited: waiting now for what another search trains; likewise.
        best: the best trial so far, weights inherited or not.
        scratch: the best that was trained from scratch.
        retrained: winners that were trained from scratch once more because their scores were inherited.
        reference: the best of the hand-designed references.
        baselines: those that completed.
        references: digests of further ones, which count as references whoever proposed them.
    """

    trials: int = 0
    trained: int = 0
    reused: int = 0
    stopped: int = 0
    failed: int = 0
    refused: int = 0
    epochs: int = 0
    spared: int = 0
    answered: int = 0
    continued: int = 0
    paused: int = 0
    awaited: int = 0
    retrained: int = 0
    best: Trial | None = None
    scratch: Trial | None = None
    reference: Trial | None = None
    baselines: list[Trial] = field(default_factory=list)
    references: Collection[str] = ()
    states: dict[str, int] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """Count a trial that is final."""
        self.states[trial.state] = self.states.get(trial.state, 0) + 1
        if trial.state is State.REFUSED:
            self.refused += 1
            return
        self.trials += 1
        self.answered += spared(trial)
        self.epochs += trained(trial)
        if trial.reused:
            self.reused += 1
        else:
            self.trained += 1
            self.continued += spared(trial) > 0
        if trial.state is State.STOPPED:
            self.stopped += 1
            self.spared += trial.epochs - trial.epoch
        elif trial.state is not State.COMPLETED:
            self.failed += 1
        if better(trial, self.best):
            self.best = trial
        if not trial.inherited and better(trial, self.scratch):
            self.scratch = trial
        self.retrained += trial.candidate.origin is Origin.RETRAIN
        candidate = trial.candidate
        designed = candidate.origin is Origin.REFERENCE and candidate.named
        if designed and trial.state is State.COMPLETED:
            self.baselines.append(trial)
        if (designed or candidate.digest in self.references) and better(trial, self.reference):
            self.reference = trial
