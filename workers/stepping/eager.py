"""A step, operation by operation: works everywhere."""

import contextlib
from collections.abc import Iterator

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from detol.workers.data.feed import Feed
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
        """Announce what this rank will read, where its samples stay on the host."""
        announce(self._learner, epoch)

    def break_off(self) -> None:
        """Do nothing: it holds nothing that the device is in."""

    def let_go(self) -> None:
        """Do nothing: nothing is recorded."""

    def __call__(self, batch: Batch) -> Tensor:
        """Take the step (see :class:`~detol.workers.stepping.base.Step`)."""
        learner, group = self._learner, self._learner.group
        # All ranks draw for the global batch and take their shard, so that widths see the same samples.
        shard = group.shard(len(batch))
        mine = batch.samples[shard]
        draws = None if batch.draws is None else batch.draws[shard]
        # The ranks' gradients are averaged: times the width over the global batch makes that a mean over samples.
        fewest = len(batch) // group.width
        loss = backward(learner, mine, draws, group.width / len(batch), cuts(fewest, self._parts))
        learner.update(batch.rate)
        return loss


def announce(learner: Learner, epoch: Epoch) -> None:
    """Let samples that stay on the host be read ahead, in the order of an epoch."""
    samples: object = learner.data.train.x
    if isinstance(samples, Feed):
        samples.begin(epoch.order, epoch.shards(learner.group))


def backward(
    learner: Learner,
    samples: Tensor,
    draws: Tensor | None,
    factor: float,
    parts: int = 1,
    raw: Tensor | None = None,
) -> Tensor:
    """Add to the gradients those of the summed loss times a factor, part by part; return the loss, detached.

    Args:
        learner: what is worked on.
        samples: of this rank.
        draws: of these samples.
        factor: of the gradients.
        parts: into how many the samples are cut; only the last exchanges gradients with other ranks.
        raw: the samples as they are stored, where they have been fetched already.
    """
    losses = []
    for part, last in _cut(len(samples), parts):
        with contextlib.nullcontext() if last else _unsynchronised(learner):
            loss = learner.loss(
                samples[part], draws if draws is None else draws[part], raw if raw is None else raw[part]
            )
            learner.scaled(loss * factor).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    return sum(losses[1:], start=losses[0])


def _unsynchronised(learner: Learner) -> contextlib.AbstractContextManager[None]:
    """Let gradients add up on this rank, without an exchange."""
    if isinstance(learner.called, DistributedDataParallel):
        return learner.called.no_sync()
    return contextlib.nullcontext()


def cuts(fewest: int, parts: int) -> int:
    """Return into how many parts samples are cut, where each needs the 2 that batch norm needs.

    Args:
        fewest: samples of any rank, so that all ranks have as many parts.
        parts: wanted.
    """
    return max(1, min(parts, fewest // 2))


def _cut(count: int, parts: int) -> Iterator[tuple[slice, bool]]:
    """Cut samples into parts; yield each with whether it is the last."""
    for number in range(parts):
        yield slice(count * number // parts, count * (number + 1) // parts), number == parts - 1
