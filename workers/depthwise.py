"""Depthwise convolutions that bfloat16 slows down on a CPU: they multiply in float32, whatever is around them."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from detol.search.recipe import Recipe


class _Exact1d(nn.Conv1d):
    """Multiplies in float32 under autocast as well; what comes out is rounded as without it."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return _exactly(super().forward, input)


class _Exact2d(nn.Conv2d):
    """The same for images."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return _exactly(super().forward, input)


_EXACT: Mapping[type[nn.Module], type[nn.Module]] = {nn.Conv1d: _Exact1d, nn.Conv2d: _Exact2d}


def exact(model: nn.Module, recipe: Recipe, device: torch.device) -> nn.Module:
    """Return the model; where it trains in bfloat16 on a CPU, depthwise convolutions that are slow so are in float32.

    Those are all but small ones without stride and dilation: gradients of 5x5 take four times as long in bfloat16 as in
    float32, those with a stride ten times (``benchmarks/precision.py --layers``). Changes the model in place;
    parameters and their names stay.
    """
    if device.type != "cpu" or recipe.precision != "bfloat16":
        return model
    for module in model.modules():
        if type(module) in _EXACT and _slow(module):
            module.__class__ = _EXACT[type(module)]
    return model


def _slow(module: nn.Module) -> bool:
    assert isinstance(module, nn.Conv1d | nn.Conv2d)
    if module.groups == 1 or module.groups != module.in_channels:
        return False
    apart = any(step > 1 for step in (*module.stride, *module.dilation))
    return apart or (isinstance(module, nn.Conv2d) and max(module.kernel_size) > 3)


def _exactly(forward: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    if not torch.is_autocast_enabled("cpu"):
        return forward(x)
    with torch.autocast("cpu", enabled=False):
        return forward(x.float()).to(torch.get_autocast_dtype("cpu"))
