"""Which units a layer keeps that is narrower in a child than in its trained parent: those that matter most."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from detol.graph.units import HIDDEN, Role, Units

Energies = NDArray[np.float64]


def kept(child: Units, parent: Units, nodes: Mapping[str, str], weights: Mapping[str, Tensor]) -> dict[str, list[int]]:
    """Return, for each narrower node of the child, its parent's units that it keeps, counted from 0, in their order.

    Units that are tied are judged as one, so that the nodes they belong to keep the same ones.

    Args:
        child: its units.
        parent: its units.
        nodes: child's node -> parent's node.
        weights: state dict of the trained parent.
    """
    found: dict[str, list[int]] = {}
    energy: Energies | None = None
    for name, old in nodes.items():
        if name not in child.made or old not in parent.made or name.endswith(HIDDEN):
            continue
        count, made = len(child.made[name]), parent.made[old]
        if count < len(made):
            energy = energies(parent, weights) if energy is None else energy
            best = np.argsort(-energy[made], kind="stable")[:count]
            found[name] = sorted(map(int, best))
    return found


def energies(units: Units, weights: Mapping[str, Tensor]) -> Energies:
    """Return by unit how much what reads it gets of it: its mean square, as norms leave it, times the squared weights.

    A norm leaves a unit with the mean square gamma^2 + beta^2; where there is none, units count alike. It is the size
    of what is lost with a unit (magnitude pruning, Li et al. 2017, arXiv 1608.08710, on the side that reads).
    """
    count = 1 + max((int(axis.units.max()) for axis in units.axes if len(axis.units)), default=0)
    read, square, norms = np.zeros(count), np.zeros(count), np.zeros(count)
    for axis in units.axes:
        tensor = weights.get(axis.parameter)
        if tensor is None or len(axis.units) != tensor.shape[axis.axis]:
            continue
        if axis.role is Role.READS:
            others = [place for place in range(tensor.ndim) if place != axis.axis]
            np.add.at(read, axis.units, tensor.detach().double().square().sum(others).numpy())
        elif _of_norm(axis.parameter, weights):
            bias = weights[f"{axis.parameter.removesuffix('weight')}bias"]
            np.add.at(square, axis.units, _squares(tensor, bias))
            np.add.at(norms, axis.units, 1.0)
    return read * np.where(norms > 0, square / np.maximum(norms, 1.0), 1.0)


def _of_norm(parameter: str, weights: Mapping[str, Tensor]) -> bool:
    return parameter.endswith(".weight") and f"{parameter.removesuffix('weight')}running_mean" in weights


def _squares(weight: Tensor, bias: Tensor) -> Energies:
    found: Energies = (weight.detach().double().square() + bias.detach().double().square()).to(torch.float64).numpy()
    return found
