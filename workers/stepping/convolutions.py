"""Which convolutions go by our own kernels: those that these compute right, and faster, on the device at hand."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from detol.workers.outcome import one_line
from detol.workers.stepping.blocks import Laid, Spec
from detol.workers.stepping.recorder import CudaRecorder, Work

Kernel = Callable[[Tensor, Tensor], Tensor]
"""From x (B, I, H, W) and weight (O, I, 3, 3) to (B, O, H, W): stride 1, zeros around, no bias."""
Timer = Callable[[Work], float]
PLAIN: Spec = ("conv2d", False, (1, 1), (1, 1), (1, 1), 1)
"""Without bias, stride, padding, dilation, groups: what the kernels compute."""
TOLERANCE = 0.02
"""Largest difference from the library's result, as a share of the largest number in it: that of bfloat16."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What two convolutions must have in common to be decided alike.

    Args:
        sample: shape of what enters, without the batch axis.
        weight: shape and strides.
        dtype: of both.
        learns: whether a gradient is wanted for what enters.
    """

    sample: tuple[int, ...]
    weight: Laid
    dtype: torch.dtype
    learns: bool


class Convolutions:
    """Decides for each kind of convolution once in the life of a worker.

    Args:
        kernel: ours.
        fits: whether it computes a convolution of these tensors at all.
        timer: seconds that work on the device takes.

    Attributes:
        faster: by kind, how many times as fast ours is; 0 where it is wrong or fails.
        why: reasons of those that fail.
    """

    def __init__(self, kernel: Kernel, fits: Callable[[Tensor, Tensor], bool], timer: Timer) -> None:
        self._kernel, self._fits, self._timer = kernel, fits, timer
        self.faster: dict[Kind, float] = {}
        self.why: dict[Kind, str] = {}

    def kind(self, specs: Sequence[Spec], x: Tensor, weight: Tensor) -> Kind | None:
        """Return the kind of the convolution that layers begin with; ``None`` where it is none for our kernel."""
        if not specs or specs[0] != PLAIN or not self._fits(x, weight):
            return None
        return Kind(tuple(x.shape[1:]), (tuple(weight.shape), weight.stride()), x.dtype, x.requires_grad)

    def chosen(self, kind: Kind) -> bool:
        """Return whether ours is taken."""
        return self.faster.get(kind, 0.0) > 1

    def __call__(self, x: Tensor, weight: Tensor) -> Tensor:
        """Convolve by our kernel."""
        return self._kernel(x, weight)

    def decide(self, kinds: Iterable[Kind], count: int, device: torch.device) -> None:
        """Try the kinds that are not decided yet, with ``count`` samples."""
        for kind in [one for one in dict.fromkeys(kinds) if one not in self.faster]:
            try:
                self.faster[kind] = self._tried(kind, count, device)
            except Exception as error:  # whatever compilers raise: the library does without them
                self.faster[kind], self.why[kind] = 0.0, one_line(f"{type(error).__name__}: {error}")

    def _tried(self, kind: Kind, count: int, device: torch.device) -> float:
        generator = torch.Generator(device).manual_seed(0)
        for samples in (max(1, count - 1), count):  # batches differ in size by one, and their last tiles by more
            run = _run(kind, samples, generator, device)
            for ours, theirs in zip(run(self._kernel), run(_library), strict=True):
                error = (ours.float() - theirs.float()).abs().max() / theirs.float().abs().max()
                if not error <= TOLERANCE:
                    self.why[kind] = f"it differs by {float(error):.3f} of the largest number"
                    return 0.0
        theirs_seconds, ours_seconds = (self._timer(lambda k=k: _done(run(k))) for k in (_library, self._kernel))  # type: ignore[misc]
        return theirs_seconds / ours_seconds


def _run(
    kind: Kind, count: int, generator: torch.Generator, device: torch.device
) -> Callable[[Kernel], tuple[Tensor, ...]]:
    """Return what computes ``count`` samples of a kind, drawn at random, and their gradients, by a kernel."""
    shape, strides = kind.weight
    x = torch.randn((count, *kind.sample), generator=generator, device=device)
    x = x.to(kind.dtype).contiguous(memory_format=torch.channels_last).requires_grad_(kind.learns)
    weight = torch.empty_strided(shape, strides, device=device, dtype=kind.dtype)
    weight.copy_(torch.randn(shape, generator=generator, device=device) / (9 * shape[1]) ** 0.5).requires_grad_()
    wanted = [x, weight] if kind.learns else [weight]
    gradient = torch.randn_like(_library(x, weight))

    def run(kernel: Kernel) -> tuple[Tensor, ...]:
        with torch.enable_grad(), torch.autocast(device.type, enabled=False):
            y = kernel(x, weight)
            return (y.detach(), *torch.autograd.grad(y, wanted, gradient))

    return run


def _library(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(x, weight, padding=1)


def _done(_: tuple[Tensor, ...]) -> None:
    """Drop results."""


def device_seconds(device: torch.device, times: int = 20) -> Timer:
    """Return a timer of work on a CUDA device, without the launches: it is recorded, and done again."""

    def seconds(work: Work) -> float:
        recorder = CudaRecorder(device)
        recorder.warm(work)
        replay = recorder.record(work)
        best = float("inf")
        for _ in range(3):
            torch.cuda.synchronize(device)
            began = time.perf_counter()
            for _ in range(times):
                replay()
            torch.cuda.synchronize(device)
            best = min(best, (time.perf_counter() - began) / times)
        return best

    return seconds


_MADE: dict[str, Convolutions] = {}


def convolutions(device: torch.device) -> Convolutions | None:
    """Return this worker's; ``None`` where Triton is not installed."""
    if "cuda" not in _MADE:
        try:
            from detol.workers.stepping.triton_conv import Convolution, fits
        except ImportError:
            return None

        def kernel(x: Tensor, weight: Tensor) -> Tensor:
            found: Tensor = Convolution.apply(x, weight)  # type: ignore[no-untyped-call]
            return found

        _MADE["cuda"] = Convolutions(kernel, fits, device_seconds(device))
    return _MADE["cuda"]
