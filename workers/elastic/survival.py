"""What a training does so that the death of a rank costs it the step under way, and no more."""

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

import safetensors.torch
import torch
from torch import Tensor, nn

from detol.errors import WorkerLost
from detol.search.records import Report
from detol.workers.checkpoint import facts
from detol.workers.communication import Communication
from detol.workers.elastic.anchor import Anchor
from detol.workers.group import Group
from detol.workers.optim import Optimiser
from detol.workers.state import detached
from detol.workers.stepping.epoch import Position

if TYPE_CHECKING:
    from detol.workers.averaging import Average
    from detol.workers.stepping.scaling import LossScale

_MODEL, _OPTIMISER, _ALSO = "model.", "optimiser.", "also."


@dataclass(frozen=True, slots=True)
class _Loss:
    """The training loss summed over the samples of the steps before ``step`` of an epoch."""

    epoch: int = 0
    step: int = 0
    loss: float = 0.0
    samples: float = 0.0


class Survival:
    """One per training and rank. With a rank on its own it does nothing.

    Survivors meet again in a new group and take the state of the one that is furthest: a rank may have received what
    another was still waiting for, so they differ by a step at most. Then the step that failed is taken again by those
    that are left, over the same global batch.

    Args:
        group: the ranks.
        model: the network itself.
        optimiser: its optimiser.
        communication: how gradients travel.
        average: of the weights, where there is one.
        scale: of the loss, where there is one.
    """

    def __init__(
        self,
        group: Group,
        model: nn.Module,
        optimiser: Optimiser,
        communication: Communication,
        average: "Average | None" = None,
        scale: "LossScale | None" = None,
    ) -> None:
        self._group, self._model, self._optimiser = group, model, optimiser
        self._communication = communication
        averaged = average.tensors() if average else {}
        scaled = {f"scale.{place}": tensor for place, tensor in enumerate(scale.tensors if scale else ())}
        self._also = {**averaged, **scaled}
        self._anchor = Anchor(model, optimiser, communication, also=self._also) if group.width > 1 else None
        if self._anchor:
            group.before_abort = self._anchor.freeze
        self._known = self._last = _Loss()
        self._gaps: set[int] = set()
        self._here = next((p.device.type for p in model.parameters()), "cpu") == "cpu"

    def agree(self, flags: Sequence[bool], position: Position) -> tuple[bool, ...]:
        """Agree on flags at a step boundary; on the CPU the loss so far travels with them, so that it outlives a rank.

        On an accelerator asking for the loss would wait for the device: there the loss of an epoch in which a rank dies
        is the mean over the samples of the survivors.
        """
        if self._group.width == 1 or not self._here:
            return self._group.agree(flags)
        loss = 0.0 if position.loss is None else float(position.loss)
        raised, sums = self._group.meet(flags, (loss, position.samples))
        self._known = _Loss(position.epoch, position.step, *sums)
        return raised

    def before(self, position: Position) -> None:
        """Call before each step."""
        if self._anchor:
            self._anchor.before(position)

    def after(self, position: Position, loss: Tensor, samples: int) -> None:
        """Call after each step, when ``position`` counts it."""
        if self._anchor:
            self._anchor.after()
            if self._here:
                self._last = _Loss(position.epoch, position.step, float(loss), samples)

    def mean(self, position: Position, rows: int) -> float:
        """Return the mean loss over the samples of an epoch that is over, of so many training samples."""
        total = self._group.total(_loss(position, self._model)).item()
        if position.epoch not in self._gaps:
            return total / rows
        return total / max(1, int(self._group.total(torch.tensor(position.samples))))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Further seeds for what is drawn from here on: ranks that go on shall not repeat what they drew."""
        return (self._group.generation,) if self._group.generation else ()

    def recover(
        self,
        error: WorkerLost,
        position: Position,
        curve: Sequence[Report],
        *,
        done: Callable[[Position], int],
        wrap: Callable[[], None],
    ) -> tuple[Position, list[Report]]:
        """Go back to the last state that is known to be good, meet the survivors, and agree with them where to go on.

        Args:
            error: how the loss of contact showed.
            position: of this rank.
            curve: its reports.
            done: from a position to the steps that are over, counted over the whole training.
            wrap: wraps the network for the new group.

        Returns:
            Where all survivors go on, and the curve up to there.

        Raises:
            WorkerLost: there is no going on.
        """
        if self._anchor is None:
            raise error
        position, reports = self._anchor.recover(position), list(curve)
        for parameter in self._model.parameters():
            parameter.grad = None  # part of what the old group had wrapped
        _let_go(error)
        while True:
            self._group.reform(error, done(position))
            try:
                with self._group.guarded():
                    position, reports = self._level(position, reports)
                    wrap()
            except WorkerLost as again:
                error = again
                continue
            self._gaps.add(position.epoch)
            self._anchor.thaw()
            return position, reports

    def _level(self, position: Position, curve: list[Report]) -> tuple[Position, list[Report]]:
        """Bring all survivors to the state of the one that is furthest."""
        known, last = self._known, self._last
        mine = [len(curve), position.epoch, position.step]
        apart = self._communication.apart
        row = torch.tensor([[*mine, *astuple(known), *astuple(last), apart]], dtype=torch.float64)
        rows = self._group.gather(row).tolist()
        where = [[int(value) for value in row[:3]] for row in rows]
        best = max(where)
        source = where.index(best)
        if any(place != best for place in where):
            payload = self._group.share(self._packed(curve) if self._group.rank == source else b"", source)
            if mine != best:
                curve = self._unpack(payload)
                samples, loss = (position.samples, position.loss) if position.epoch == best[1] else (0, None)
                position = Position(best[1], best[2], loss, samples)
        if any(row[-1] for row in rows):  # of two survivors one may have had the last message of an average
            self._meet_halfway()
        return self._shared_loss(position, rows), curve

    def _shared_loss(self, position: Position, rows: Sequence[Sequence[float]]) -> Position:
        """Let rank 0 go on with the loss that all ranks, the lost ones included, had summed up to the last boundary."""
        known = max((_Loss(int(row[3]), int(row[4]), row[5], row[6]) for row in rows), key=lambda k: (k.epoch, k.step))
        if known.epoch != position.epoch or not position.step - 1 <= known.step <= position.step:
            return position
        lasts = [_Loss(int(row[7]), int(row[8]), row[9], row[10]) for row in rows]
        since = [last for last in lasts if (last.epoch, last.step) == (known.epoch, known.step + 1)]
        since = since if known.step < position.step else []
        first = self._group.rank == 0
        loss = (known.loss + sum(last.loss for last in since)) if first else 0.0
        samples = int(known.samples + sum(last.samples for last in since)) if first else 0
        return replace(position, loss=torch.tensor(loss), samples=samples)

    @torch.no_grad()
    def _meet_halfway(self) -> None:
        """Average weights that differ by intent, before the way they travel by is attached to the new group."""
        for parameter in self._model.parameters():
            parameter.copy_(self._group.total(parameter) / self._group.width)
        self._communication.apart = False

    def _packed(self, curve: Sequence[Report]) -> bytes:
        tensors = {f"{_MODEL}{name}": detached(tensor) for name, tensor in self._model.state_dict().items()}
        tensors |= {f"{_OPTIMISER}{name}": detached(tensor) for name, tensor in self._optimiser.tensors().items()}
        tensors |= {f"{_ALSO}{name}": detached(tensor) for name, tensor in self._also.items()}
        rows = [[report.epoch, dict(report.metrics), report.seconds] for report in curve]
        return safetensors.torch.save(tensors, {"curve": json.dumps(rows)})

    def _unpack(self, payload: bytes) -> list[Report]:
        tensors = safetensors.torch.load(payload)
        model, memory, also = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in (_MODEL, _OPTIMISER, _ALSO)
        )
        self._model.load_state_dict(model)
        self._optimiser.restore(memory)
        for name, tensor in also.items():
            self._also[name].copy_(tensor)
        return [Report(int(epoch), metrics, seconds) for epoch, metrics, seconds in json.loads(facts(payload)["curve"])]


def first_wrap(group: Group, wrap: Callable[[], nn.Module], *, settles: bool | None) -> tuple[nn.Module, bool]:
    """Wrap a network for the first time; a rank that dies before that is left behind like one that dies later.

    Args:
        group: the ranks.
        wrap: wraps the network.
        settles: whether the training settles into inherited weights, as this rank sees it; ``None``: it has none.

    Returns:
        The network, and whether all ranks see it so.

    Raises:
        WorkerLost: there is no going on.
    """
    while True:
        try:
            with group.guarded():
                return wrap(), settles is not None and not group.agree((not settles,))[0]
        except WorkerLost as error:
            group.reform(error, 0)


def _let_go(error: BaseException | None) -> None:
    """Free what an error's frames hold of the old group and its buffers: there may be no memory for both."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
    gc.collect()


def _loss(position: Position, model: nn.Module) -> Tensor:
    if position.loss is not None:
        return position.loss
    return torch.zeros((), device=next((p.device for p in model.parameters()), torch.device("cpu")))
