"""Who starts from whose weights, and what the record says of it.

A score that was reached from a parent's weights is no score of a training from scratch: the trial is marked
(``Trial.inherited``), it never answers for another trial, and the winner is trained from scratch in the end.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from detol.graph.correspond import correspond
from detol.graph.topology import Topology
from detol.search.protocols import Keeper
from detol.search.records import INHERITED, Candidate, Origin, Transfer, Trial
from detol.search.spared import CHECKPOINT, LEFT
from detol.search.tally import Tally
from detol.search.task import Task

RULE, SHARE, RECORD, NOTE, EPOCH = "inherit", "inherited", "transfer", "inherit_note", "inherited_epoch"
"""Facts of a trial: by which rule its weights were taken over, which share of its parameters (from the worker), the
record of the edit while the trial has not ended, why nothing was taken over, and after which epoch of the parent's
training its weights were taken."""

MARKS = (INHERITED, RULE, SHARE, NOTE, EPOCH)
"""Facts that are those of a training: another one of the same trial, or an answer, loses them."""

REMEMBERED = 1_000
"""Trials whose networks are remembered as parents; keepers keep the weights of fewer."""


class Inheritance:
    """Finds the parents of new trials.

    One that has ended serves with the weights that were kept of it, or the checkpoint that it left when it was stopped;
    one that rests or has gone on with its last checkpoint.

    Args:
        task: its rule is for candidates that come without a record of their own.
        keeper: of the weights.
        warn: called with one line for people.
    """

    def __init__(self, task: Task, keeper: Keeper, warn: Callable[[str], None]) -> None:
        self._rule, self._keeper, self._warn = task.inherit, keeper, warn
        # Of those that have ended, by number: topology, place of the weights, and their epoch.
        self._parents: dict[int, tuple[Topology, str, int]] = {}
        self._again: set[int] = set()

    def ended(self, trial: Trial) -> None:
        """Take note of a trial that has ended: its weights may be taken over."""
        if trial.candidate.origin is Origin.RETRAIN:
            self._again.update(trial.candidate.parents)
        place, epoch = trial.weights, trial.epoch
        if not place and not trial.reused:
            place, epoch = str(trial.extra.get(LEFT, "")), int(trial.extra.get(CHECKPOINT, 0))
        if place and trial.state.scored and trial.scores is not None:
            self._parents[trial.number] = (trial.candidate.topology, place, epoch)
            if len(self._parents) > REMEMBERED:
                del self._parents[next(iter(self._parents))]

    def noted(self, trial: Trial) -> Trial:
        """Return a new trial with its candidate's own record, which a resume needs."""
        transfer = trial.candidate.transfer
        return replace(trial, extra={**trial.extra, RECORD: to_text(transfer)}) if transfer else trial

    def begun(
        self, trial: Trial, opened: Callable[[int], tuple[Trial, bytes] | None] = lambda _: None
    ) -> tuple[Trial, Candidate, tuple[Topology, bytes] | None]:
        """Return a trial marked as it starts, what the worker gets of its candidate, and the parent.

        The first of the candidate's parents whose weights (or checkpoint) are there; the trial starts from scratch when
        none are, and a note says so.

        Args:
            trial: new, or one that begins again.
            opened: returns the trial of a number and its last checkpoint, if it has not ended and has one.
        """
        candidate = trial.candidate
        transfer = candidate.transfer or from_text(str(trial.extra.get(RECORD, "")))
        wanted = (transfer.parent,) if transfer else candidate.parents if self._inherits(candidate) else ()
        bare = replace(trial, extra={name: value for name, value in trial.extra.items() if name not in MARKS})
        for number in wanted:
            found = self._kept(number) or _resting(opened(number))
            if found is not None:
                topology, weights, epoch = found
                how = transfer or Transfer(number, correspond(topology, candidate.topology), rule=self._rule)
                extra = {**bare.extra, INHERITED: str(number), RULE: how.rule, EPOCH: epoch}
                marked = replace(bare, extra=extra)
                return marked, replace(candidate, transfer=how), (topology, weights)
        if wanted:
            note = f"the weights of trial {' and '.join(map(str, wanted))} are not kept: trained from scratch"
            self._warn(f"trial {trial.number}: {note}")
            bare = replace(bare, extra={**bare.extra, NOTE: note})
        return bare, candidate, None

    def over(self, trial: Trial) -> Trial:
        """Return a trial that has ended as the record keeps it: without what only a resume needed."""
        return replace(trial, extra={name: value for name, value in trial.extra.items() if name != RECORD})

    def retraining(self, tally: Tally) -> Candidate | None:
        """Return the winner as a candidate to be trained from scratch, where its score was inherited; once for each."""
        best = tally.best
        if best is None or not best.inherited or best.number in self._again:
            return None
        self._again.add(best.number)
        note = f"trial {best.number} from scratch"
        return Candidate(best.candidate.decisions, best.candidate.topology, Origin.RETRAIN, (best.number,), note)

    def _kept(self, number: int) -> tuple[Topology, bytes, int] | None:
        """Return what is kept of a trial that has ended: topology, weights or checkpoint, and their epoch."""
        topology, place, epoch = self._parents.get(number, (None, "", 0))
        weights = self._keeper.load(place) if place else None
        return None if topology is None or weights is None else (topology, weights, epoch)

    def _inherits(self, candidate: Candidate) -> bool:
        return self._rule != "off" and not candidate.named


def _resting(found: tuple[Trial, bytes] | None) -> tuple[Topology, bytes, int] | None:
    """Return the same of one that has not ended, and its checkpoint."""
    return (found[0].candidate.topology, found[1], int(found[0].extra[CHECKPOINT])) if found else None


def to_text(transfer: Transfer) -> str:
    """Return a record as JSON."""
    return json.dumps(asdict(transfer), separators=(",", ":"))


def from_text(text: str) -> Transfer | None:
    """Return the record of a JSON text; ``None`` for an empty one."""
    if not text:
        return None
    values: Mapping[str, Any] = json.loads(text)
    return Transfer(
        int(values["parent"]),
        dict(values["nodes"]),
        {name: tuple(places) for name, places in values["units"].items()},
        {name: tuple((int(unit), float(value)) for unit, value in pairs) for name, pairs in values["folded"].items()},
        {name: tuple((int(a), int(b), float(f)) for a, b, f in merges) for name, merges in values["merged"].items()},
        bool(values["optimiser"]),
        str(values["rule"]),
    )
