"""A step, operation by operation: works everywhere."""

import contextlib
from collections.abc import Iterator

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from detol.workers.stepping.base import Learner
from detol.workers.stepping.epoch import Batch, Epoch


class Eager:
    """Forwards, backwards, optimiser, one after the other.

    Args:
        learner: what it works on.
        why: why it is not a quicker kind.
        parts: into how many the rank's samples are cut, one after the other, the gradients being added up: less memory
            for activations, and one exchange between the ranks for all of them.
    """

    kind = "eager"

    def __init__(self, learner: Learner, *, why: str = "", parts: int = 1) -> None:
        self._learner, self._parts = learner, parts
        self.why = why

    def begin(self, epoch: Epoch) -> None:
        """Nothing to get ready."""

    def __call__(self, batch: Batch) -> Tensor:
        """Take the step (see :class:`~detol.workers.stepping.base.Step`)."""
        learner, group = self._learner, self._learner.group
        # All ranks draw for the global batch and take their shard, so that widths see the same samples.
        shard = group.shard(len(batch))
        mine = batch.samples[shard]
        draws = None if batch.draws is None else batch.draws[shard]
        losses = []
        for part, last in _cut(len(mine), self._parts):
            with contextlib.nullcontext() if last else self._unsynchronised():
                loss = learner.loss(mine[part], draws if draws is None else draws[part])
                # The ranks' gradients are averaged: times the width over the global batch makes that a mean of samples.
                (loss * (group.width / len(batch))).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        learner.optimiser.step(batch.rate)
        return sum(losses[1:], start=losses[0])

    def _unsynchronised(self) -> contextlib.AbstractContextManager[None]:
        """Let gradients add up on this rank, without an exchange."""
        called = self._learner.called
        if isinstance(called, DistributedDataParallel):
            return called.no_sync()
        return contextlib.nullcontext()


def _cut(count: int, parts: int) -> Iterator[tuple[slice, bool]]:
    """Cut samples into parts of at least the 2 that batch norm needs; yield each with whether it is the last."""
    parts = max(1, min(parts, count // 2))
    for number in range(parts):
        yield slice(count * number // parts, count * (number + 1) // parts), number == parts - 1
