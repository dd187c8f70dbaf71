"""Training of one network on one data set, from top to bottom. Knows nothing of Ray, searches or databases.

The same arguments give the same learning curve, bit for bit, on one CPU thread: every random number comes from the
seed, and each epoch has generators of its own.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from detol.errors import CheckpointError, Diverged, TimedOut, WorkerLost
from detol.graph.build import build
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.search.records import Report
from detol.search.stages import largest_part
from detol.workers.augment import Augmenter
from detol.workers.averaging import Average
from detol.workers.checkpoint import facts, pack
from detol.workers.communication import communicate, gather, memory_of
from detol.workers.depthwise import exact
from detol.workers.elastic.survival import Survival, first_wrap
from detol.workers.evaluate import forward
from detol.workers.group import Group, plain
from detol.workers.metrics import measure
from detol.workers.optim import Optimiser, learning_rate
from detol.workers.outcome import one_line
from detol.workers.start import (
    Parent,
    begin,
    gone,
    inherited_rate,
    measured,
    optimiser_tensors,
    remember,
    settle,
    settles,
)
from detol.workers.state import Stamp, read, save
from detol.workers.step import Criterion, memory_faults, mix, seeded
from detol.workers.stepping import Epoch, Learner, LossScale, Pace, Position, Schedule, choose
from detol.workers.stepping import facts as step_facts
from detol.workers.stepping.memory import Footprint
from detol.workers.stepping.recompute import recompute
from detol.workers.tensors import Tensors, load

if TYPE_CHECKING:
    from detol.workers.data.dataset import Dataset

INHERITED, SETTLES = "inherited", "settles"
"""Facts of a checkpoint: the share of the parameters that came from a parent, and whether it settles into them."""


class Training:
    """One training: iterate over :meth:`reports`, then take the :meth:`weights`.

    Args:
        topology: of the network.
        data: a data set, or its tensors already on ``device`` (which many trainings may share).
        recipe: how to train.
        epochs: of the whole schedule, >= 1.
        seed: of the initial weights, the order of the samples, augmentation and dropout.
        device: ``cpu``, ``cuda`` ...
        group: the ranks that train together; alone by default. All ranks make the same ``Training``.
        stop: asked at every step boundary; when any rank's says yes, all end after the same step.
        limit: seconds after which training ends with ``TimedOut``, at a step boundary.
        clock: seconds, never falling.
        checkpoint: where to go on, from :meth:`checkpoint` of the same training anywhere; ``None``: at the start.
        until: the epoch after which it pauses; 0 (or ``epochs``): it does not.
        parent: whose weights it starts from, and how; ``None``: from fresh ones. A ``checkpoint`` holds them already.

    Attributes:
        model: the network.
        curve: the reports so far, those before the checkpoint included.
        inherited: share of its parameters that come from the parent; ``None`` without one.
        settles: whether it starts with low learning rates, since it computes much of what its parent did.
        position: what is completed, on this rank, of the epoch under way. A training whose step failed goes on behind
            the last completed one when ``reports`` is called again.

    Raises:
        CheckpointError: a checkpoint that cannot be read, or one of another training.
        OutOfMemory: here or in ``reports``.
        UsageError, TopologyError: a recipe or a topology that does not fit the data.
    """

    def __init__(
        self,
        topology: Topology,
        data: "Dataset | Tensors",
        recipe: Recipe,
        *,
        epochs: int,
        seed: int,
        device: str = "cpu",
        group: Group | None = None,
        stop: Callable[[], bool] = lambda: False,
        limit: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        checkpoint: bytes | None = None,
        until: int = 0,
        parent: Parent | None = None,
    ) -> None:
        self._began = self._turned = clock()
        self._clock, self._stop, self._limit = clock, stop, limit
        self._topology, self._recipe, self._epochs, self._seed = topology, recipe, epochs, seed
        self._group = group or Group()
        with memory_faults(), self._group.guarded():
            self._data = data if isinstance(data, Tensors) else load(data, device)
            self._device = self._data.device
            self._augment = Augmenter(recipe.augment, self._data.kind)
            self._criterion = Criterion(self._data, recipe)
            with seeded(self._device, seed):
                model = exact(build(topology, self._data.shape, self._data.outputs), recipe, self._device)
            parent = measured(parent, self._data, recipe) if parent and checkpoint is None else None
            started = begin(model, topology, parent, self._data) if parent else None
            model = model.to(self._device, memory_format=self._data.layout)  # type: ignore[call-overload]
            self.settles = started is not None
            if started and parent:
                settle(model, topology, parent, started, self._data)
                self.settles = settles(model, parent, self._data, recipe, self._criterion)
            rows = len(self._data.train)
            part = largest_part(recipe, epochs, rows, self._group.width)
            self._footprint = Footprint(topology, self._data, recipe, part)
            if self._footprint.why:
                recompute(model)
            self._schedule = Schedule.of(rows, recipe, self._group.width, epochs)
            self._communication = communicate(model, recipe, self._group.width)
            fits = self.settles if started else None
            self._called, self.settles = first_wrap(self._group, lambda: self._wrapped(model), settles=fits)
            self.model = plain(self._called)
            self._optimiser = Optimiser(self.model, self._communication.local(recipe))
            self._average = Average(self.model, recipe.averaging) if recipe.averaging else None
            self._scale = LossScale(self._device) if recipe.precision == "float16" else None
            self._step = choose(self._learner())
            steps_on = (self.model, self._optimiser, self._communication, self._average, self._scale)
            self._survival = Survival(self._group, *steps_on)
            self._pace, self.position = Pace(self._device), Position(0)
            if parent and started:
                remember(self.model, self._optimiser, parent, started)
                self._communication.adopt(self._optimiser)
        self.inherited = started.share if started else None
        self._until = until or epochs
        self._stamp = Stamp.of(topology, recipe, seed, epochs)
        self.curve: list[Report] = []
        if checkpoint is not None:
            self._go_on(checkpoint)

    @property
    def epoch(self) -> int:
        """Epochs over."""
        return self.curve[-1].epoch if self.curve else 0

    def _steps(self, position: Position) -> int:
        return self._schedule.before(position.epoch) + position.step if position.epoch else 0

    @property
    def paused(self) -> bool:
        """Whether it has come to its ``until`` with epochs left."""
        return self.epoch == self._until < self._epochs

    def reports(self) -> Iterator[Report]:
        """Train, and yield a report after each further epoch; end early after a stop (without one) or at ``until``.

        Raises:
            Diverged: a training or validation loss is not finite.
            OutOfMemory: host or device memory ran out.
            TimedOut: the limit has passed.
            WorkerLost: another rank died or stopped answering, and there is no going on with those that are left.
        """
        told = len(self.curve)
        while True:  # of a survivor that was behind, the curve may have grown without it
            yield from self.curve[told:]
            told = len(self.curve)
            if self.epoch >= self._until:
                return
            try:
                report = self._report(self.epoch + 1)
            except WorkerLost as error:
                self.survive(error)
                continue
            if report is None:
                return
            self.curve.append(report)

    def _report(self, epoch: int) -> Report | None:
        """Train an epoch, or what is left of it, and validate; ``None`` after a stop."""
        if self.position.epoch != epoch:
            self.position, self._turned = Position(epoch), self._clock()
        with memory_faults(self._advice), self._group.guarded():
            with seeded(self._device, self._seed, epoch, self._group.rank, *self._survival.seeds):
                train_loss = self._train(epoch)
            if train_loss is None:
                return None
            metrics = {"train_loss": train_loss, **self._validate(epoch)}
        if not math.isfinite(metrics["val_loss"]):
            raise Diverged(f"the validation loss is {metrics['val_loss']} after epoch {epoch}")
        return Report(epoch, metrics, self._clock() - self._turned)

    def _advice(self) -> str:
        """Return what to do where memory has run out: what is recorded keeps the most, and no step follows."""
        if self._group.width == 1:  # graphs of several ranks may wait for one another
            self._step.let_go()
        return self._footprint.advice()

    def survive(self, error: WorkerLost) -> None:
        """Meet the ranks that are left, behind the last step (or report) that one of them has completed.

        All of them do, wherever they are: in the middle of ``reports``, or behind it. ``reports`` goes on from there.

        Raises:
            WorkerLost: there is no going on.
        """
        with self._group.guarded():
            self._step.break_off()
        # What the old group had wrapped goes before the new one wraps: there may be no memory for both.
        self._called = self.model
        self._step = choose(self._learner())
        self.position, self.curve = self._survival.recover(
            error,
            self.position,
            self.curve,
            done=self._steps,
            wrap=self._wrap_again,
        )

    def _wrap_again(self) -> None:
        self._called = self._wrapped(self.model)
        self._step = choose(self._learner())

    def _wrapped(self, model: nn.Module) -> nn.Module:
        return self._group.wrap(model, sync_norm=self._recipe.sync_norm, communication=self._communication)

    def weights(self, *, optimiser: bool = False) -> bytes:
        """Return the weights that were measured, with the topology's digest (see :mod:`detol.workers.checkpoint`).

        ``optimiser``: with what the optimiser remembers, for a child that takes that over too.
        """
        memory = optimiser_tensors(self.model, self._optimiser) if optimiser else None
        with self._measured(self.epoch):
            return pack(self.model, self._topology, {**self._units(), **gone(self.epoch, self._epochs)}, memory)

    def checkpoint(self) -> bytes:
        """Return the whole state after the last report (see :mod:`detol.workers.state`); not in the middle of an epoch.

        All ranks have the same: one of them is enough, unless it is made ``together``, which all must call then.
        """
        if not self.curve:
            raise ValueError("there is nothing to go on from before the first epoch")
        more = {**self._units(), **{name: repr(value) for name, value in self._communication.meter.facts.items()}}
        if self.inherited is not None:
            more |= {INHERITED: repr(self.inherited), SETTLES: str(self.settles)}
        if self._scale is not None:
            more |= self._scale.facts()
        with self._group.guarded():
            memory = gather(self._communication, self._optimiser, self._group)
        average = self._average.tensors() if self._average else {}
        return save(self.model, self._optimiser, self._stamp, self.curve, more, memory, average)

    @property
    def together(self) -> bool:
        """Whether a checkpoint needs all ranks, since each remembers something of its own."""
        return self._communication.remembers

    @property
    def sent(self) -> Mapping[str, str | float | int]:
        """What this rank sent to exchange gradients or weights (see :class:`detol.workers.communication.Meter`)."""
        return self._communication.meter.facts

    @property
    def engine(self) -> Mapping[str, str | float | int]:
        """How its steps are taken (see :mod:`detol.workers.stepping`)."""
        return step_facts(self._step, self._device)

    def measured(self, names: Sequence[str]) -> dict[str, str]:
        """Return measures of the network as it is now, as JSON texts by name (see :mod:`detol.workers.measures`).

        Raises:
            OutOfMemory: host or device memory ran out.
            UsageError: an unknown measure.
        """
        from detol.workers.measures import measured

        with memory_faults():
            return measured(names, self.model, self._topology, self._data)

    def _learner(self) -> Learner:
        """Return what a step works on."""
        return Learner(
            self._called,
            self._data,
            self._recipe,
            self._group,
            self._augment,
            self._criterion,
            self._optimiser,
            self._scale,
            self._footprint.why,
        )

    def _go_on(self, checkpoint: bytes) -> None:
        """Take over the state of the same training as it was after some epoch."""
        saved = read(checkpoint, self._stamp)
        try:
            self.model.load_state_dict(dict(saved.model))
            self._optimiser.restore(saved.optimiser)
            self._communication.adopt(self._optimiser)
            if self._average:
                self._average.restore(saved.average)
            if saved.communication:
                memory = memory_of(saved.communication, self._group.rank, self._group.width)
                self._communication.recall(memory, self._optimiser)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(one_line(f"the checkpoint does not fit the network: {error}")) from None
        self.curve = list(saved.reports)
        found = facts(checkpoint)
        share = found.get(INHERITED)
        self._communication.meter.restore(found)
        if self._scale is not None:
            self._scale.restore(found)
        self.inherited = None if share is None else float(share)
        self.settles = share is not None and found.get(SETTLES, "True") == "True"

    def _units(self) -> dict[str, str]:
        """Return what turns outputs of a regression into the target's units; nothing for a classification."""
        if self._data.task != "regression":
            return {}
        return {"target_mean": repr(self._data.target_mean), "target_std": repr(self._data.target_std)}

    def _train(self, epoch: int) -> float | None:
        """Train one epoch, or what is left of it; return the mean loss over its samples, ``None`` after a stop."""
        group = self._group
        generator = torch.Generator(self._device).manual_seed(mix(self._seed, epoch))
        rows = len(self._data.train)
        rates = self._schedule.rates(epoch, self._rate)
        drawn = Epoch.drawn(epoch, rows, rates, self._augment, generator, block=self._data.block)
        finite = True
        self._called.train()
        self._step.begin(drawn)
        self._communication.begin(self._schedule.before(epoch) + self.position.step, self._schedule.total)
        for batch in drawn.batches(self.position.step):
            if self._ends(finite, epoch):
                self._communication.settle()
                return None
            self._survival.before(self.position)
            loss = self._step(batch)
            self._communication.stepped()
            self._pace.step()
            shard = group.shard(len(batch))
            self.position.advance(loss, shard.stop - shard.start)
            if self._average:
                self._average.update(self._schedule.before(epoch) + self.position.step, from_parent=self.settles)
            self._survival.after(self.position, loss, shard.stop - shard.start)
            # Looking at a loss waits for the device: on an accelerator once an epoch is enough.
            finite = self._device.type != "cpu" or math.isfinite(loss.item())
        self._communication.settle()
        self._footprint.note()
        mean = self._survival.mean(self.position, rows)
        # The epoch is whole, so a stop takes effect at the next boundary, after its report.
        self._ends(math.isfinite(mean), epoch)
        return mean

    def _rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 0, of so many of the whole schedule."""
        if self.settles:
            return inherited_rate(self._recipe, step, steps, self._epochs)
        return learning_rate(self._recipe, step, steps)

    def _ends(self, finite: bool, epoch: int) -> bool:
        """Agree with all ranks at a step boundary whether to stop.

        Raises:
            Diverged: any rank's loss is not finite.
            TimedOut: any rank's clock is past the limit.
        """
        late = self._clock() - self._began > self._limit
        stop, late, diverged = self._survival.agree((self._stop(), late, not finite), self.position)
        if diverged:
            raise Diverged(f"the training loss is not finite in epoch {epoch}: lower the learning rate")
        if late:
            raise TimedOut(f"the limit of {self._limit:g} s passed in epoch {epoch}")
        return stop

    def _measured(self, epoch: int) -> contextlib.AbstractContextManager[None]:
        """Let the network have the weights by which it is measured after an epoch: averaged ones but after the last."""
        if self._average and epoch < self._epochs:
            return self._average.applied(self._data, self._recipe)
        return contextlib.nullcontext()

    def _validate(self, epoch: int) -> dict[str, float]:
        """Return the metrics on the validation split, each rank having run its shard of it."""
        rows, group = self._data.validation, self._group
        group.settle(self.model)
        shard = group.shard(len(rows))
        with self._measured(epoch), group.alive(self.model):
            mine = forward(self.model, self._data, rows.x[shard], self._recipe)
        output = group.gather(mine)
        target = rows.y.to(output.device)
        loss = self._criterion(output, target).item() / len(rows)
        natural = self._criterion.natural(output)
        return {"val_loss": loss, **measure(self._data.task, natural, target, "val_")}


def train(
    topology: Topology, data: "Dataset | Tensors", recipe: Recipe, *, epochs: int, seed: int, **options: Any
) -> Iterator[Report]:
    """Train a network and yield a report after each epoch; the arguments are those of :class:`Training`."""
    yield from Training(topology, data, recipe, epochs=epochs, seed=seed, **options).reports()
