"""How much of what its parent had learnt a child still computes before it is trained."""

import copy
import math

import torch
from torch import Tensor, nn

from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.workers.parent import by_batches, restored
from detol.workers.step import Criterion, precision
from detol.workers.tensors import Tensors

SAMPLES = 256
"""Training samples by which it is measured, spread over the split: all ranks see the same."""


def share_known(
    child: nn.Module, parent: Topology, weights: bytes, data: Tensors, recipe: Recipe, criterion: Criterion
) -> float:
    """Return by how much of what the parent does a child is better than a guess: 1 for an edit that changes nothing.

    That is (guess - child) / (guess - parent), of mean losses on ``SAMPLES`` training samples. Batch norms take the
    samples' own statistics: those that a child inherited belong to other inputs where a layer before them was cut, and
    the first steps of a training mend that. The guess is the share of each class, or the mean.

    Args:
        child: with what it inherited, on the device of the data; not changed.
        parent: its topology.
        weights: of the parent, as ``Training.weights`` packs them.
        data: that the child is going to be trained on.
        recipe: likewise.
        criterion: of the recipe.

    Returns:
        At most about 1, also far below 0; minus infinity for a loss that is not finite, and where the parent itself is
        no better than the guess.

    Raises:
        CheckpointError: weights of another network.
    """
    rows = data.some(SAMPLES)
    target = rows.y
    before = restored(parent, weights, data)

    def loss(network: nn.Module) -> float:
        with torch.no_grad(), precision(recipe, data.device):
            return criterion(network(data.standardised(rows.x)).float(), target).item()

    guess = criterion(_guess(target, data), target).item()
    gained, left = guess - loss(by_batches(before)), guess - loss(by_batches(copy.deepcopy(child)))
    return left / gained if gained > 0 and math.isfinite(left) else -math.inf


def _guess(target: Tensor, data: Tensors) -> Tensor:
    """Return the outputs of a network that knows the shares of the classes alone, or the mean of a regression."""
    if data.task != "classification":
        return torch.zeros((len(target), 1), device=data.device)
    counts = torch.bincount(target.long(), minlength=data.outputs).float()
    return ((counts + 1) / (counts + 1).sum()).log().expand(len(target), -1)
