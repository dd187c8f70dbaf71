"""Where a training starts that takes over its parent's weights."""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from detol.errors import CheckpointError
from detol.graph.topology import Topology
from detol.search.recipe import Recipe
from detol.search.records import Transfer
from detol.workers.averaging import Average
from detol.workers.checkpoint import facts, pack, unpack, unpack_optimiser
from detol.workers.depthwise import exact
from detol.workers.known import SAMPLES, share_known
from detol.workers.neutral import calibrate
from detol.workers.optim import Optimiser, learning_rate
from detol.workers.outcome import one_line
from detol.workers.parent import loaded, restored
from detol.workers.reconstruct import reconstruct
from detol.workers.state import is_state, read_any
from detol.workers.step import Criterion
from detol.workers.tensors import Tensors
from detol.workers.transfer import Inherited, inherit, inherit_optimiser

Parent: TypeAlias = tuple[Topology, bytes, Transfer]
"""A parent's topology, its weights as ``Training.weights`` packs them, and how they are taken over.

To :func:`measured` a checkpoint may be given in place of the weights.
"""

SETTLING = 0.3
"""Share of its schedule in which a training settles into the weights it inherited, at low learning rates."""
PEAKS = (0.03, 0.3)
"""Highest learning rates of its two parts, as shares of the recipe's."""
_GONE = "gone"
"""Fact of the weights of a parent that has not come to its end: the share of its schedule that had gone, in (0, 1)."""
LEAST_KNOWN = 0.5
"""Share of what its parent had learnt that a child has to compute at the start for there to be something to settle into
(:func:`detol.workers.known.share_known`). By ``match`` it was below 0.45 or above 0.8 for 14 mutations on digits; by
``morph``, which is reconstructed, above 0.95 for 42 (without that, below 0.6 for 13 of them)."""


def inherited_rate(recipe: Recipe, step: int, steps: int, epochs: int) -> float:
    """Return the learning rate of one step of a training that started from a parent's weights.

    The high rates at the start of a schedule would take away what the parent has learnt at the end of its own. So the
    schedule is gone through three times (warm restarts: Loshchilov and Hutter 2017, arXiv 1608.03983). First in one
    epoch, hardly moving: a child that still computes what its parent did is as good as it after that. Then in a short
    time at a part of its height, which heals what an edit broke. Then as from scratch in the time that is left, so that
    a child whose edit broke more learns it anew. One whose edit broke most of it has no use for the first two: it goes
    through the recipe's own schedule alone: six of 14 mutations on digits needed 28 epochs for 44 by that. Over the
    mutations of ``benchmarks/inheritance.py`` it makes next to no difference.

    Args:
        recipe: as of :func:`detol.workers.optim.learning_rate`.
        step: likewise.
        steps: likewise.
        epochs: of the whole training, >= 1; where that is short, the first part is less than an epoch.
    """
    end = int(SETTLING * steps)
    first = min(round(steps / epochs), end // 2)
    if step < first:
        return PEAKS[0] * learning_rate(recipe, step, first)
    if step < end:
        return PEAKS[1] * learning_rate(recipe, step - first, end - first)
    return learning_rate(recipe, step - end, steps - end)


def gone(epoch: int, epochs: int) -> dict[str, str]:
    """Return what weights say of a training that has not come to its end: which share of its schedule had gone."""
    return {_GONE: repr(epoch / epochs)} if epoch < epochs else {}


def measured(parent: Parent, data: Tensors, recipe: Recipe) -> Parent:
    """Return a parent with weights where a checkpoint of its training is given: those that it was measured by.

    They are what ``Training.weights`` would have given then, the averaged ones where the recipe has some, and say how
    far the training had come.

    Args:
        parent: with weights (it is returned as it is) or a checkpoint.
        data: that it was trained on.
        recipe: likewise.

    Raises:
        CheckpointError: bytes that cannot be read, or a checkpoint of another topology.
    """
    topology, state, transfer = parent
    if not is_state(state):
        return parent
    saved = read_any(state, topology)
    share = gone(saved.epoch, int(facts(state)["epochs"]))
    try:
        network = exact(loaded(topology, saved.model, data), recipe, data.device)
        memory = _by_name(network, saved.optimiser) if transfer.optimiser else None
        if not saved.average:
            return topology, pack(network, topology, share, memory), transfer
        average = Average(network, recipe.averaging)
        average.restore(saved.average)
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(one_line(f"the checkpoint does not fit the parent: {error}")) from None
    with average.applied(data, recipe):
        return topology, pack(network, topology, share, memory), transfer


def begin(model: nn.Module, topology: Topology, parent: Parent, data: Tensors) -> Inherited:
    """Give a fresh network, still on the host, its parent's weights.

    Raises:
        CheckpointError: weights that cannot be read, or that are not those of the parent's topology.
        TopologyError: a record that does not fit the two topologies.
    """
    before, weights, transfer = parent
    found = inherit(
        topology,
        model.state_dict(),
        before,
        unpack(weights, before),
        transfer,
        shape=data.shape,
        outputs=data.outputs,
    )
    model.load_state_dict(dict(found.state))
    return found


def settle(model: nn.Module, topology: Topology, parent: Parent, inherited: Inherited, data: Tensors) -> None:
    """Set by data what a rule cannot: the norms that start as identities, and with ``morph`` what an edit broke.

    Args:
        model: with what it inherited, on its device.
        topology: its own.
        parent: whose weights it has.
        inherited: what :func:`begin` returned.
        data: that it is going to be trained on.
    """
    if inherited.identities:
        calibrate(model, inherited.identities, data.standardised(data.some(SAMPLES).x))
    before, weights, transfer = parent
    if transfer.rule == "morph":
        reconstruct(model, topology, restored(before, weights, data), before, inherited, transfer, data)


def settles(model: nn.Module, parent: Parent, data: Tensors, recipe: Recipe, criterion: Criterion) -> bool:
    """Return whether a network with what it inherited knows enough of what its parent does to settle into it.

    There is nothing to settle into where the parent itself had gone less than ``SETTLING`` of its schedule: its rates
    were still high. On digits (27 epochs, 7 mutations) children of parents of one epoch had, on the average, .857 after
    one epoch and .926 after three when they settled, .917 and .964 when not; of parents of 3 epochs .954 and .963, .962
    and .964; of parents of 9 epochs (4 mutations) .971 and .975, .970 and .965.

    Arguments as of :func:`detol.workers.known.share_known`.
    """
    topology, weights, _ = parent
    if float(facts(weights).get(_GONE, 1)) < SETTLING:
        return False
    return share_known(model, topology, weights, data, recipe, criterion) >= LEAST_KNOWN


def remember(model: nn.Module, optimiser: Optimiser, parent: Parent, inherited: Inherited) -> None:
    """Give the optimiser what its parent's remembered, where the transfer wants that and the weights hold it."""
    if not parent[2].optimiser:
        return
    states = inherit_optimiser(unpack_optimiser(parent[1]), inherited)
    optimiser.restore(_numbered(model, states))


def optimiser_tensors(model: nn.Module, optimiser: Optimiser) -> dict[str, dict[str, Tensor]]:
    """Return what an optimiser remembers, by name of the parameter."""
    return _by_name(model, optimiser.tensors())


def _by_name(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    names = _names(model)
    found: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        place, _, what = key.partition(".")
        found.setdefault(names[int(place)], {})[what] = tensor
    return found


def _numbered(model: nn.Module, states: Mapping[str, Mapping[str, Tensor]]) -> dict[str, torch.Tensor]:
    """Return an optimiser's memory as ``Optimiser.restore`` takes it."""
    return {
        f"{place}.{key}": tensor
        for place, name in enumerate(_names(model))
        for key, tensor in states.get(name, {}).items()
    }


def _names(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]
