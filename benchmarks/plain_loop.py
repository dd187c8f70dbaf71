"""What people write without detol: a DataLoader with flips and crops, autocast, torch's SGD and a cosine.

Nothing of detol is used but the network and the arrays it is given. It is written to be quick as such loops go:
workers that persist, pinned memory, copies that do not wait, channels last, bfloat16, and no look at the loss.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


@dataclass(frozen=True)
class Loop:
    """Settings of the loop: those of the recipe that it is compared with."""

    rate: float = 0.1
    momentum: float = 0.9
    decay: float = 5e-4
    batch: int = 256
    processes: int = 8


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Images (N, C, H, W) uint8, each mirrored with probability 1/2 and shifted by up to an eighth, standardised."""

    def __init__(self, x: NDArray[Any], y: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> None:
        self.x, self.y = x, y
        self.mean, self.std = mean.astype(np.float32), std.astype(np.float32)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        image = torch.from_numpy(self.x[row])
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        margin = max(1, image.shape[-1] // 8)
        padded = functional.pad(image, (margin,) * 4)
        down, right = torch.randint(0, 2 * margin + 1, (2,)).tolist()
        image = padded[:, down : down + image.shape[1], right : right + image.shape[2]]
        return (image.float() - torch.from_numpy(self.mean)) / torch.from_numpy(self.std), int(self.y[row])


def train(model: nn.Module, images: Images, loop: Loop, epochs: int, seed: int, device: str) -> Iterator[float]:
    """Train, and yield the seconds of each epoch."""
    torch.manual_seed(seed)
    model = model.to(device, memory_format=torch.channels_last)
    loader = DataLoader(
        images,
        batch_size=loop.batch,
        shuffle=True,
        drop_last=True,
        num_workers=loop.processes,
        persistent_workers=loop.processes > 0,
        pin_memory=device == "cuda",
    )
    optimiser = torch.optim.SGD(
        model.parameters(), lr=loop.rate, momentum=loop.momentum, nesterov=True, weight_decay=loop.decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * len(loader))
    for _ in range(epochs):
        began = time.perf_counter()
        model.train()
        for x, y in loader:
            x = x.to(device, non_blocking=True).contiguous(memory_format=torch.channels_last)
            y = y.to(device, non_blocking=True)
            optimiser.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimiser.step()
            schedule.step()
        if device == "cuda":
            torch.cuda.synchronize()
        yield time.perf_counter() - began


@torch.no_grad()
def accuracy(model: nn.Module, x: NDArray[Any], y: NDArray[Any], images: Images, device: str) -> float:
    """Return the share of right answers for images (N, C, H, W) uint8, standardised as those trained on."""
    model.eval()
    mean, std = (torch.from_numpy(part).to(device) for part in (images.mean, images.std))
    right = 0
    for start in range(0, len(y), 1000):
        part = torch.from_numpy(np.ascontiguousarray(x[start : start + 1000])).to(device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            found = model(((part.float() - mean) / std).contiguous(memory_format=torch.channels_last))
        right += int((found.argmax(1).cpu() == torch.from_numpy(y[start : start + 1000])).sum())
    return right / len(y)
