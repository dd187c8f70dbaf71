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
    """Shift each sample by up to an eighth of each axis (at least by one place) each way.

    Around an image zeros come in; at the ends of a signal, where zero may be far from all values, the last one repeats.
    """
    return _shift(batch, draws) if batch.ndim == 3 else _window(batch, draws)


def _shift(batch: Tensor, draws: Tensor) -> Tensor:
    length = batch.shape[-1]
    most = max(1, length // 8)
    by = (draws[:, 2] * (2 * most + 1)).long() - most
    places = (torch.arange(length, device=batch.device) + by[:, None]).clamp(0, length - 1)
    return batch.gather(2, places[:, None].expand_as(batch))


def _window(batch: Tensor, draws: Tensor) -> Tensor:
    _, _, height, width = batch.shape
    tall, wide = max(1, height // 8), max(1, width // 8)
    down = (draws[:, 1] * (2 * tall + 1)).long()
    right = (draws[:, 2] * (2 * wide + 1)).long()
    padded = torch.nn.functional.pad(batch, (wide, wide, tall, tall))
    # All windows as strides over the padded images: the indices pick one of each, rows of pixels are copied whole.
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(batch), device=batch.device), :, down, right]


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
