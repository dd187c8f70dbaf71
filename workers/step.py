"""The parts of one training step that are not its story: the loss, the precision, seeds, and faults."""

import contextlib
import hashlib
import traceback
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from detol.errors import OutOfMemory
from detol.search.recipe import Recipe
from detol.workers.outcome import exhausted, one_line
from detol.workers.tensors import Tensors


class Criterion:
    """The training objective, summed over samples so that shards of any size add up to the global batch.

    Classification: cross-entropy in nats with the recipe's label smoothing. Regression: squared error of the
    standardised target.
    """

    def __init__(self, data: Tensors, recipe: Recipe) -> None:
        self._classify = data.task == "classification"
        self._smoothing = recipe.label_smoothing
        self._mean, self._std = data.target_mean, data.target_std

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the summed loss, a scalar, of outputs (B, outputs) and targets (B,)."""
        if self._classify:
            return F.cross_entropy(output, target, label_smoothing=self._smoothing, reduction="sum")
        return F.mse_loss(output.squeeze(-1), (target - self._mean) / self._std, reduction="sum")

    def natural(self, output: Tensor) -> Tensor:
        """Return outputs in natural units: logits (N, classes), or values (N,) of the target."""
        return output if self._classify else output.squeeze(-1) * self._std + self._mean


def element(recipe: Recipe) -> torch.dtype:
    """Return the format that a recipe multiplies in."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[recipe.precision]


def precision(recipe: Recipe, device: torch.device) -> torch.autocast:
    """Return the context of the forward pass: bfloat16 needs no loss scaling, float16 does (``stepping.scaling``)."""
    return torch.autocast(device.type, dtype=element(recipe), enabled=recipe.precision != "float32")


def mix(*numbers: int) -> int:
    """Return a seed in [0, 2**63) that depends on all numbers and their order."""
    text = ",".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


@contextlib.contextmanager
def seeded(device: torch.device, *numbers: int) -> Iterator[None]:
    """Seed torch's global generators (initial weights, dropout) inside the context; restore them after it."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(mix(*numbers))
        yield


@contextlib.contextmanager
def memory_faults(advice: Callable[[], str] = str) -> Iterator[None]:
    """Raise :class:`OutOfMemory` for whatever torch, Python or the C++ library raise when memory runs out.

    Args:
        advice: says what to do, where that is known; called when what failed holds no memory any more.
    """
    try:
        yield
    except OutOfMemory:
        raise
    except (MemoryError, RuntimeError, OSError) as error:
        if exhausted(error):
            _let_go(error)
            remedy = advice()
            raise OutOfMemory(one_line(f"{remedy + ': ' if remedy else ''}{type(error).__name__}: {error}")) from error
        raise


def _let_go(error: BaseException) -> None:
    """Let go of what the calls that failed still hold: the activations of a step, above all."""
    failed: BaseException | None = error
    while failed is not None:
        traceback.clear_frames(failed.__traceback__)
        failed = failed.__context__
