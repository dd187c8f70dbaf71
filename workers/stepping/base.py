"""The seam: what a step works on, and what it does."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from detol.search.recipe import Recipe
from detol.workers.augment import Augmenter
from detol.workers.group import Group
from detol.workers.optim import Optimiser
from detol.workers.step import Criterion, precision
from detol.workers.stepping.epoch import Batch, Epoch
from detol.workers.stepping.scaling import LossScale
from detol.workers.tensors import Tensors


class Step(Protocol):
    """One kind of training step. Called from one thread, all ranks in the same order.

    After a call that returned, weights, buffers and optimiser are those after the step, on every rank. After one that
    raised they are those before it, but for the running statistics of batch norm, and gradients may be left behind.
    """

    @property
    def kind(self) -> str:
        """``eager`` or ``graph``."""

    @property
    def why(self) -> str:
        """Why it is not a quicker kind; empty for the quickest."""

    def begin(self, epoch: Epoch) -> None:
        """Get ready for an epoch; called before its first step, and before the first after a resumption within it."""

    def break_off(self) -> None:
        """Let what waits for a rank that is gone come back; call it before the step is let go of.

        Of a recorded step the group is broken off by that, and it comes to an end of that only when the recording is
        let go of, which the group does as it is left.

        Raises:
            RuntimeError: the device itself failed.
        """

    def let_go(self) -> None:
        """Forget what is recorded, and the memory that it keeps; the next call records it anew."""

    def __call__(self, batch: Batch) -> Tensor:
        """Take the step; return the loss summed over this rank's samples, a scalar on the device, detached.

        The tensor may be written to by the next step.
        """


@dataclass(frozen=True)
class Learner:
    """What a step works on.

    Args:
        called: the network as it is called in training (under DistributedDataParallel where there are ranks).
        data: whose training split is learnt.
        recipe: how.
        group: the ranks.
        augment: of the recipe.
        criterion: of the recipe.
        optimiser: over the parameters of the network.
        scale: of the loss, in float16; ``None`` otherwise.
        recomputed: why activations are computed again for the gradients; empty where they are kept.
    """

    called: nn.Module
    data: Tensors
    recipe: Recipe
    group: Group
    augment: Augmenter
    criterion: Criterion
    optimiser: Optimiser
    scale: LossScale | None = None
    recomputed: str = ""

    def loss(self, samples: Tensor, draws: Tensor | None, raw: Tensor | None = None) -> Tensor:
        """Return the loss summed over some samples of the training split, augmented by their draws.

        Args:
            samples: (B,) int64.
            draws: (B, 3), or ``None``.
            raw: (B, *shape), the samples as they are stored, where they have been fetched already.
        """
        rows = self.data.train
        x = self.augment(rows.x.index_select(0, samples) if raw is None else raw, draws)
        with precision(self.recipe, self.data.device):
            output = self.called(self.data.standardised(x))
            return self.criterion(output.float(), rows.y[samples])

    def scaled(self, loss: Tensor) -> Tensor:
        """Return what is differentiated in place of a loss."""
        return loss if self.scale is None else self.scale(loss)

    def update(self, rate: float | Tensor) -> None:
        """Take the optimiser's step by the gradients that are there, and clear them.

        Args:
            rate: learning rate; a tensor where the step is recorded.
        """
        if self.scale is None:
            self.optimiser.step(rate)
            return
        overflow = self.scale.unscale(self.optimiser.gradients)
        self.optimiser.step(rate, skip=overflow)
        self.scale.update(overflow)
