"""A step as one CUDA graph: forwards, backwards and optimiser are launched by a single call.

Small networks are bound by launches: a step of NAS-Bench-201's network is two thousand kernels of a few microseconds,
each of which takes the host longer than the device.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from detol.workers.group import plain
from detol.workers.outcome import exhausted, one_line
from detol.workers.step import element
from detol.workers.stepping.base import Learner
from detol.workers.stepping.blocks import Block, Key, Shared, blocks_of, function, replaced
from detol.workers.stepping.compiled import Compiler
from detol.workers.stepping.eager import Eager, announce, backward, cuts
from detol.workers.stepping.epoch import Batch, Epoch
from detol.workers.stepping.exchange import Exchange
from detol.workers.stepping.recorder import Recorder, Work
from detol.workers.stepping.shadow import Shadow

Clock = Callable[[], float]
TRIES = 2
"""Recordings of a step with an exchange that are tried. On two H200s (torch 2.11) the first ones in a process failed
with ``cudaErrorStreamCaptureInvalidated`` while networks were wrapped on the default stream (see
``process_group._recordable``), and later ones did not."""


@dataclass
class Recorded:
    """A recorded step for global batches of one size, ``count``, and the memory that it reads and writes."""

    count: int
    samples: Tensor
    draws: Tensor | None
    raw: Tensor | None
    loss: Tensor
    replay: Work

    def take(self, samples: Tensor, draws: Tensor | None, rows: Tensor) -> None:
        """Copy this rank's part of a batch of the training samples to where the step reads it."""
        self.samples.copy_(samples)
        if self.raw is not None:
            self.raw.copy_(rows.index_select(0, samples))
        if self.draws is not None and draws is not None:
            self.draws.copy_(draws)


class Graph:
    """Takes each step by one recorded graph, of which there is one for each size of batch.

    There are at most two, and two more for each time that the batch grows. What cannot be recorded is done operation by
    operation from then on, and ``why`` says what it was.

    Args:
        learner: what it works on.
        recorder: of the device.
        compiler: of blocks; ``None``: they are not compiled.
        budget: whether only blocks are compiled that pay (see :class:`~detol.workers.stepping.compiled.Compiler`).
        parts: as of :class:`~detol.workers.stepping.eager.Eager`.
        clock: seconds, never falling.

    Attributes:
        seconds: that recording and compiling took.
    """

    def __init__(
        self,
        learner: Learner,
        recorder: Recorder,
        compiler: Compiler | None = None,
        *,
        budget: bool = False,
        parts: int = 1,
        clock: Clock = time.monotonic,
    ) -> None:
        self._learner, self._recorder, self._compiler = learner, recorder, compiler
        self._budget, self._parts, self._clock = budget, parts, clock
        self._model = plain(learner.called)
        self._exchange = _exchange(learner)
        self._alone = replace(learner, called=self._model)
        self._dtype = element(learner.recipe)
        self._blocks = blocks_of(self._model)
        weights = [weight for block in self._blocks.values() for weight in block.weights]
        # Where gradients are exchanged beside the backward pass, they are to come one bucket after the other.
        self._shadow = Shadow(self._exchange.buckets(weights) if self._exchange else [weights], self._dtype)
        self._counters = [counter for block in self._blocks.values() for counter in block.counters]
        self._keys: dict[Key, int] = {}
        self._shared = Shared()
        self._rate = torch.zeros((), device=learner.data.device)
        self._recorded: dict[int, Recorded] = {}
        self._eager: Eager | None = None
        self.seconds = 0.0
        if self._exchange is not None:
            learner.group.recorded(self)

    @property
    def kind(self) -> str:
        """``graph``, or ``eager`` where that failed."""
        return "graph" if self._eager is None else self._eager.kind

    @property
    def why(self) -> str:
        """Why it is not a graph; empty where it is."""
        return "" if self._eager is None else self._eager.why

    @property
    def compiled(self) -> tuple[int, int]:
        """How many different blocks are compiled, and of how many."""
        made = self._compiler.made if self._compiler else {}
        return sum(key in made for key in self._keys), len(self._keys)

    @property
    def failure(self) -> str:
        """Why a block of it could not be compiled; empty where none failed."""
        failed = self._compiler.failed if self._compiler else {}
        return next((failed[key] for key in self._keys if key in failed), "")

    def begin(self, epoch: Epoch) -> None:
        """Announce what will be read; what is not recorded yet is when it is needed."""
        announce(self._learner, epoch)

    def __call__(self, batch: Batch) -> Tensor:
        """Take the step (see :class:`~detol.workers.stepping.base.Step`)."""
        if self._eager is None and len(batch) not in self._recorded:
            self._prepare(batch)
        if self._eager is not None:
            return self._eager(batch)
        recorded = self._recorded[len(batch)]
        recorded.take(*self._part(batch), self._learner.data.train.x)
        self._rate.fill_(batch.rate)
        recorded.replay()
        return recorded.loss

    def break_off(self) -> None:
        """Break the group off, and wait until the device is out of what was recorded.

        To destroy a graph that runs takes until it has run, and where that is done by its last reference going away no
        other thread could end it meanwhile: torch does so under the interpreter's lock.
        """
        if self._exchange is not None:
            self._learner.group.break_off()
            self._recorder.wait()

    def let_go(self) -> None:
        """Forget what is recorded; the next step records it anew."""
        self._recorded.clear()
        self._recorder.let_go()

    def _part(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return this rank's samples of a batch, and their draws."""
        shard = self._learner.group.shard(len(batch))
        return batch.samples[shard], None if batch.draws is None else batch.draws[shard]

    def _prepare(self, batch: Batch) -> None:
        """Record the step for batches of this size, or give graphs up, on all ranks."""
        began = self._clock()
        kept, why = _Kept(self._learner, self._model), ""
        for _ in range(TRIES if self._exchange else 1):
            why = self._try(batch, kept)
            if not self._learner.group.agree((bool(why),))[0]:
                break
            kept.restore()
            self.let_go()
            self._exchange = _exchange(self._learner)  # what the failed one has sent may still be on its way
        else:
            why, self._exchange = why or "another rank cannot record its step", None
            self._eager = Eager(self._learner, why=why, parts=self._parts)
        self.seconds += self._clock() - began

    def _try(self, batch: Batch, kept: "_Kept") -> str:
        """Record the step; return why that failed on this rank, or nothing."""
        try:
            self._recorded[len(batch)] = self._record(batch, kept)
        except RuntimeError as error:
            if not exhausted(error):
                return f"the step cannot be recorded: {one_line(str(error))}"
            if self._exchange is not None:  # the other ranks wait in it
                raise
            # What is recorded keeps its memory beside that of the next size's first run: nearly twice a step's.
            return "memory does not suffice for recorded steps"
        return ""

    def _record(self, batch: Batch, kept: "_Kept") -> Recorded:
        mine, drawn = self._part(batch)
        loss = torch.zeros((), device=self._learner.data.device)
        # Samples that are fed from the host are fetched before the recorded step, not in it.
        x = self._learner.data.train.x
        raw = None if isinstance(x, Tensor) else x.index_select(0, mine).clone()
        draws = None if drawn is None else drawn.clone()
        recorded = Recorded(len(batch), mine.clone(), draws, raw, loss, lambda: None)
        self._rate.fill_(batch.rate)
        _let_record(self._learner.optimiser.inner)
        work = partial(self._work, recorded)
        with torch.random.fork_rng([loss.device] if loss.device.type == "cuda" else []):
            if self._compiler is not None and not self._keys:
                self._compile(self._compiler, work, len(mine), loss.device)
            self._recorder.warm(work)
        kept.restore()
        recorded.replay = self._recorder.record(work)
        return recorded

    def _compile(self, compiler: Compiler, work: Work, count: int, device: torch.device) -> None:
        """Compile what pays; which blocks there are is known when they have been gone through."""
        work()
        compiler.prepare(self._keys, count, device, budget=self._budget)

    def _work(self, recorded: Recorded) -> None:
        """Take a step from the memory of a recording: what is recorded."""
        learner = self._alone
        self._shadow.renew()
        parts = cuts(recorded.count // learner.group.width, self._parts)
        try:
            with (
                self._exchange.beside(parts) if self._exchange else contextlib.nullcontext(),
                replaced({module: partial(self._forward, block) for module, block in self._blocks.items()}),
            ):
                loss = backward(learner, recorded.samples, recorded.draws, 1 / recorded.count, parts, recorded.raw)
                recorded.loss.copy_(loss)
        finally:  # of a step that fails, nothing of the device's memory is held on to
            self._shadow.renew()
            self._shared.clear()
        if self._counters:
            torch._foreach_add_(self._counters, parts)
        learner.update(self._rate)

    def _forward(self, block: Block, x: Tensor) -> Tensor:
        """Compute a block, by its compiled function where there is one."""
        x = self._shared(block.first, x)
        key = block.key(x, self._dtype)
        self._keys.setdefault(key, len(self._keys))
        made = self._compiler.made.get(key) if self._compiler else None
        call = made or function(key.specs, key.dtype)
        tensors = [self._shadow(tensor) for tensor in block.tensors]
        with torch.autocast(x.device.type, enabled=False):
            return call(x, *tensors)


def _exchange(learner: Learner) -> Exchange | None:
    """Return the exchange with other ranks; ``None`` for one that is alone."""
    called = learner.called
    return Exchange(called) if isinstance(called, DistributedDataParallel) else None


def _let_record(optimiser: Optimizer) -> None:
    """Tell an optimiser of torch that its steps will be recorded, so that it keeps its counts on the device."""
    for group in optimiser.param_groups:
        if "capturable" in group:
            group["capturable"] = True
            # Steps before the recording are no mistake.
            optimiser._warned_capturable_if_run_uncaptured = True


class _Kept:
    """The state before steps that only warm up."""

    def __init__(self, learner: Learner, model: nn.Module) -> None:
        self._optimiser = learner.optimiser
        scale = learner.scale.tensors if learner.scale else ()
        self._tensors = [*model.parameters(), *model.buffers(), *scale]
        before = {id(tensor): tensor.clone() for tensor in learner.optimiser.tensors().values()}
        self._before = before
        self._copies = [tensor.detach().clone() for tensor in self._tensors]

    def restore(self) -> None:
        """Write it back, to where it was; what an optimiser began to remember since is as nothing: zeros."""
        with torch.no_grad():
            for tensor, copy in zip(self._tensors, self._copies, strict=True):
                tensor.copy_(copy)
                tensor.grad = None
            for tensor in self._optimiser.tensors().values():
                kept = self._before.get(id(tensor))
                tensor.zero_() if kept is None else tensor.copy_(kept)
