"""One epoch as all ranks see it: the order of the samples, what is drawn for each, and where each batch begins."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Generator, Tensor

from detol.workers.augment import Augmenter
from detol.workers.data.order import epoch_order
from detol.workers.group import Group


@dataclass(frozen=True)
class Batch:
    """What a step takes, the same on all ranks.

    Args:
        number: of the step in its epoch, from 0.
        samples: (B,) int64, rows of the training split that make the global batch.
        draws: (B, 3) uniform in [0, 1) for augmentation, or ``None``.
        rate: the learning rate.
    """

    number: int
    samples: Tensor
    draws: Tensor | None
    rate: float

    def __len__(self) -> int:
        """Return the samples of the global batch."""
        return len(self.samples)


@dataclass(frozen=True)
class Epoch:
    """All batches of an epoch. Any step can be had without the ones before it: a training may go on in the middle.

    Args:
        number: from 1.
        order: (N,) int64, a permutation of the training samples, on the device of training.
        draws: (N, 3) in the same order, or ``None`` when nothing is augmented.
        rates: the learning rate of each step; as many as there are global batches, whose sizes differ by at most 1.
    """

    number: int
    order: Tensor
    draws: Tensor | None
    rates: tuple[float, ...]

    @classmethod
    def drawn(
        cls,
        number: int,
        count: int,
        rates: tuple[float, ...],
        augment: Augmenter,
        generator: Generator,
        *,
        block: int = 0,
    ) -> "Epoch":
        """Draw an epoch of ``count`` samples; the generator is on the device of training.

        ``block``: samples that are read together, where the data are larger than memory; else 0.
        """
        order = epoch_order(count, generator, block=block)
        return cls(number, order, augment.draw(count, generator), rates)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.rates)

    def start(self, step: int) -> int:
        """Return how many samples the steps before this one have: the first batches are the larger ones."""
        size, more = divmod(len(self.order), len(self))
        return step * size + min(step, more)

    def shards(self, group: Group) -> list[slice]:
        """Return the part of the order that each step takes on this rank."""
        found = []
        for step in range(len(self)):
            first, stop = self.start(step), self.start(step + 1)
            shard = group.shard(stop - first)
            found.append(slice(first + shard.start, first + shard.stop))
        return found

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, from 0."""
        part = slice(self.start(step), self.start(step + 1))
        return Batch(step, self.order[part], None if self.draws is None else self.draws[part], self.rates[step])

    def batches(self, first: int = 0) -> Iterator[Batch]:
        """Yield the batches from a step on."""
        for step in range(first, len(self)):
            yield self.batch(step)


@dataclass
class Position:
    """Where a training is: what has been completed, on this rank, of an epoch.

    Args:
        epoch: that is under way, from 1.
        step: steps of it that are over: the weights, the buffers and the optimiser are as after the last of them.
        loss: summed over this rank's samples of these steps, a scalar on the device; ``None`` before the first.
        samples: of this rank in these steps.
    """

    epoch: int
    step: int = 0
    loss: Tensor | None = None
    samples: int = 0

    def advance(self, loss: Tensor, samples: int) -> None:
        """Count a step that is over."""
        self.step += 1
        self.samples += samples
        self.loss = loss.clone() if self.loss is None else self.loss.add_(loss)
