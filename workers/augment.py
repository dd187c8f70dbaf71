"""Augmentation of batches of images and signals on their device, every draw from the generator given."""

from collections.abc import Callable, Mapping

import torch
from torch import Generator, Tensor

from detol.search.recipe import check_augment

Augmentation = Callable[[Tensor, Tensor], Tensor]
"""From a batch (B, C, H, W) or (B, C, L) and its draws (B, 3), uniform in [0, 1), to a batch of the same shape."""
DRAWS = 3
"""Draws of a sample: flip, vertical shift, horizontal shift. Made for all, so that one never moves another."""


def flip(batch: Tensor, draws: Tensor) -> Tensor:
    """Mirror each image left to right with probability 1/2."""
    mirrored = (draws[:, 0] < 0.5)[:, None, None, None]
    return torch.where(mirrored, batch.flip(-1), batch)


def crop(batch: Tensor, draws: Tensor) -> Tensor:
    """Shift each sample by up to an eighth of each axis (at least by one place) each way, zeros coming in."""
    sizes = batch.shape[2:]
    most = [max(1, size // 8) for size in sizes]
    starts = [(draws[:, column] * (2 * far + 1)).long() for column, far in zip((2, 1), reversed(most), strict=False)]
    padded = torch.nn.functional.pad(batch, [far for far in reversed(most) for _ in range(2)])
    # All windows as strides over the padded samples: the indices pick one of each, rows are copied whole.
    for axis, size in enumerate(sizes, start=2):
        padded = padded.unfold(axis, size, 1)
    rows = torch.arange(len(batch), device=batch.device)
    return padded.movedim(1, -1)[(rows, *reversed(starts))].movedim(-1, 1)


AUGMENTATIONS: Mapping[str, Augmentation] = {"flip": flip, "crop": crop}


class Augmenter:
    """The augmentations of a recipe, in its order.

    Args:
        names: joined by commas, as in :class:`~detol.search.recipe.Recipe`; empty for none.
        kind: of the data.

    Raises:
        UsageError: one that is not for data of this kind.
    """

    def __init__(self, names: str, kind: str) -> None:
        check_augment(names, kind)
        self._steps = [AUGMENTATIONS[name] for name in names.split(",") if name]

    def draw(self, count: int, generator: Generator) -> Tensor | None:
        """Return the draws of a global batch, (count, 3), or ``None`` when there is nothing to augment."""
        if not self._steps:
            return None
        return torch.rand(count, DRAWS, generator=generator, device=generator.device)

    def __call__(self, batch: Tensor, draws: Tensor | None) -> Tensor:
        """Augment a batch (B, C, ...) with its rows of what :meth:`draw` returned."""
        if draws is not None:
            for step in self._steps:
                batch = step(batch, draws)
        return batch
