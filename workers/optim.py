"""Optimisers and learning-rate schedules of a recipe."""

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from detol.search.recipe import Recipe


def make_optimiser(model: nn.Module, recipe: Recipe) -> Optimizer:
    """Return the optimiser of a recipe over the parameters of a model.

    Biases and the scales of norms (parameters with one axis) are not decayed. The fused kernels are used where the
    device has them (CPU and CUDA).
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = _fusible(parameters)
    if recipe.optimiser == "adamw":
        return AdamW(groups, lr=recipe.learning_rate, fused=fused)
    return SGD(
        groups,
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov and recipe.momentum > 0,
        fused=fused,
    )


def _fusible(parameters: Iterable[torch.Tensor]) -> bool:
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """Return the learning rate of one step.

    With W = floor(warmup * steps), the rate rises linearly over the first W steps, (step + 1) / W of the peak, and then
    falls with t = (step - W) / (steps - W): ``cosine`` as (1 + cos(pi t)) / 2 (Loshchilov and Hutter 2017, arXiv
    1608.03983, eq. 5 without restarts), ``one_cycle`` linearly as 1 - t (Smith and Topin 2017, arXiv 1708.07120: two
    linear legs), ``constant`` not at all.

    Args:
        recipe: its ``schedule``, ``warmup`` and ``learning_rate``.
        step: from 0, below ``steps``.
        steps: of the whole training.
    """
    rising = int(recipe.warmup * steps)
    if step < rising:
        return recipe.learning_rate * (step + 1) / rising
    fallen = (step - rising) / (steps - rising)
    if recipe.schedule == "cosine":
        return recipe.learning_rate * (1 + math.cos(math.pi * fallen)) / 2
    if recipe.schedule == "one_cycle":
        return recipe.learning_rate * (1 - fallen)
    return recipe.learning_rate


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    """Use ``rate`` from the next step on."""
    for group in optimiser.param_groups:
        group["lr"] = rate
