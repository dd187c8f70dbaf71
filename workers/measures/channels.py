"""Saliency of units that are cut as they are: channels, filters, features."""

from typing import Any

import torch
from torch import nn

from detol.graph.prune import prunable
from detol.workers.measures.probe import Probe


def channels(probe: Probe) -> dict[str, Any]:
    """Return by node, for each of its units that can be cut (in order), how much it matters and what it puts out.

    ``saliency``: the mean over samples of (dL/dg)^2, g = 1 being a gate on the unit: Taylor importance of first order
    (Molchanov et al. 2019, arXiv 1906.10771, eq. 8 and section 3.3, with gates behind norm and activation and one
    square for each sample). Units that are tied (through sums) share one gate, so they have one saliency. ``scale``:
    |gamma| of the batch norm of the node (Liu et al. 2017, arXiv 1708.06519), where it has one. ``mean``: the mean
    output over samples and positions.
    """
    found, names = probe.units, [name for name in prunable(probe.units) if name in probe.modules]
    numbers = sorted({int(unit) for name in names for unit in found.made[name]})
    place = {unit: index for index, unit in enumerate(numbers)}
    device = probe.data.device
    index = {name: torch.tensor([place[int(unit)] for unit in found.made[name]], device=device) for name in names}
    total = torch.zeros(len(numbers), dtype=torch.float64, device=device)
    means = {name: total.new_zeros(len(index[name])) for name in names}
    for x, y in probe.seen() if names else ():
        with probe.outputs(names) as left:
            loss = probe.loss(probe.model(x), y)
        slopes = torch.autograd.grad(loss, [left[name] for name in names])
        gates = total.new_zeros((len(x), len(numbers)))
        for name, slope in zip(names, slopes, strict=True):
            value = left[name].detach().reshape(*slope.shape[:2], -1).double()
            gates.index_add_(1, index[name], (value * slope.reshape(value.shape)).sum(2))
            means[name] += value.mean(2).sum(0) / probe.samples
        total += gates.square().sum(0) / probe.samples
    return {
        "saliency": {name: _rounded(total[index[name]]) for name in names},
        "scale": {name: scale for name in names if (scale := _scale(probe.modules[name]))},
        "mean": {name: _rounded(mean) for name, mean in means.items()},
    }


def _scale(module: nn.Module) -> list[float]:
    weight = getattr(dict(module.named_children()).get("norm"), "weight", None)
    return [] if weight is None else _rounded(weight.detach().abs())


def _rounded(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.5g}") for value in values.tolist()]
