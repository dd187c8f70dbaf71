"""Optimisers and learning-rate schedules of a recipe."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from detol.search.recipe import Recipe
from detol.workers.large_batch import Lamb, Lars


class Optimiser:
    """The optimiser of a recipe over the parameters of a model, whose every step is told its learning rate.

    Biases and the scales of norms (parameters with one axis) are not decayed, and have no trust ratio. torch's own
    optimiser does the work, by its fused kernels where the device has them (CPU and CUDA); called past its decorators,
    it needs no compiler: importing that costs each worker more than a second.
    """

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self._parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
            {"params": [p for p in self._parameters if p.ndim <= 1], "weight_decay": 0.0, "adapted": False},
        ]
        _spare_the_compiler()
        self.inner = _make([group for group in groups if group["params"]], recipe, fused=_fusible(self._parameters))
        self._step = cast("Callable[[Optimizer], None]", inspect.unwrap(type(self.inner).step))
        self._clip = recipe.clip
        if recipe.precision == "float16":
            self._begin(recipe)

    def step(self, rate: float | torch.Tensor, skip: torch.Tensor | None = None) -> None:
        """Clip the gradients to the recipe's norm, take a step at a learning rate, and clear them.

        Args:
            rate: the learning rate; a scalar tensor on the device where steps are recorded.
            skip: a scalar on the device, 1 where the gradients are not finite: then nothing but they is changed.
        """
        if self._clip:
            nn.utils.clip_grad_norm_(self._parameters, self._clip)
        for group in self.inner.param_groups:
            group["lr"] = rate
        skipping = skip is not None and getattr(self.inner, "_step_supports_amp_scaling", False)
        if skipping:
            # torch's fused kernels look at it themselves, so that the host need not wait for the device.
            self.inner.found_inf = skip  # type: ignore[attr-defined]
        if skip is None or skipping or not skip.item():
            with torch.no_grad():
                self._step(self.inner)
        for parameter in self._parameters:
            parameter.grad = None

    @property
    def gradients(self) -> list[torch.Tensor]:
        """The gradients that are there."""
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

    def _begin(self, recipe: Recipe) -> None:
        """Let SGD remember zeros, as it does anyway before its first step: that may be skipped."""
        if isinstance(self.inner, SGD) and recipe.momentum:
            for parameter in self._parameters:
                self.inner.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return what the optimiser remembers as ``INDEX.KEY``, by the place of the parameter in the model.

        Momentum buffers of SGD and LARS; first and second moments and step counts of AdamW and LAMB.
        """
        return {
            f"{place}.{key}": value
            for place, parameter in enumerate(self._parameters)
            for key, value in self.inner.state.get(parameter, {}).items()
            if isinstance(value, torch.Tensor)
        }

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over what :meth:`tensors` gave for the same model and recipe.

        Raises:
            ValueError: names or shapes that do not fit the model.
        """
        self.inner.state.clear()
        for name, tensor in tensors.items():
            place, _, key = name.partition(".")
            if not place.isdigit() or int(place) >= len(self._parameters):
                raise ValueError(f"the optimiser has no parameter {place}")
            parameter = self._parameters[int(place)]
            if tensor.ndim and tensor.shape != parameter.shape:
                raise ValueError(f"{key} of parameter {place} has shape {[*tensor.shape]}, not {[*parameter.shape]}")
            # In the layout of the parameter, since fused kernels walk through both side by side.
            like = torch.empty_like(parameter, dtype=tensor.dtype) if tensor.ndim else torch.empty_like(tensor)
            self.inner.state[parameter][key] = like.to(parameter.device).detach().copy_(tensor)


def _make(groups: list[dict[str, Any]], recipe: Recipe, *, fused: bool) -> Optimizer:
    if recipe.optimiser == "adamw":
        return AdamW(groups, lr=recipe.learning_rate, fused=fused)
    if recipe.optimiser == "lamb":
        return Lamb(groups, recipe.learning_rate)
    if recipe.optimiser == "lars":
        return Lars(groups, recipe.learning_rate, momentum=recipe.momentum)
    return SGD(
        groups,
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov and recipe.momentum > 0,
        fused=fused,
    )


def _spare_the_compiler() -> None:
    """Let the methods of optimisers run without importing torch's compiler just to tell it to ignore them."""
    if "torch._dynamo" in sys.modules:
        return
    for method in vars(Optimizer).values():
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and not hasattr(plain, "__dynamo_disable"):
            plain.__dynamo_disable = plain


def _fusible(parameters: Iterable[torch.Tensor]) -> bool:
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """Return the learning rate of one step.

    With W = floor(warmup * steps), the rate rises linearly over the first W steps, (step + 1) / W of the way to the
    peak, and then falls with t = (step - W) / (steps - W): ``cosine`` as (1 + cos(pi t)) / 2 (Loshchilov and Hutter
    2017, arXiv 1608.03983, eq. 5 without restarts), ``one_cycle`` linearly as 1 - t (Smith and Topin 2017, arXiv
    1708.07120: two linear legs), ``constant`` not at all; ``step`` and ``grow_batch`` neither, since they change by the
    epoch (:func:`detol.search.stages.stage`). The way starts at zero, and with a ``base_batch`` at the rate of
    that batch (Goyal et al. 2017, arXiv 1706.02677, section 2.2).

    Args:
        recipe: its ``schedule``, ``warmup``, ``learning_rate``, ``batch_size`` and ``base_batch``.
        step: from 0, below ``steps``.
        steps: of the whole training.
    """
    rising = int(recipe.warmup * steps)
    if step < rising:
        start = recipe.learning_rate if recipe.base_batch else 0.0
        return start + (recipe.peak - start) * ((step + 1) / rising)
    fallen = (step - rising) / (steps - rising)
    if recipe.schedule == "cosine":
        return recipe.peak * (1 + math.cos(math.pi * fallen)) / 2
    if recipe.schedule == "one_cycle":
        return recipe.peak * (1 - fallen)
    return recipe.peak
