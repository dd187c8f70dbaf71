"""What is measured of a trained network for strategies that change its structure.

A measure reads a :class:`~detol.workers.measures.probe.Probe` (the network, its units, samples of the training data)
and returns what JSON can hold. All are deterministic: the samples and random signs come from fixed seeds.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from detol.errors import unknown
from detol.graph.topology import Topology
from detol.workers.measures.channels import channels
from detol.workers.measures.edges import edges
from detol.workers.measures.neurons import neurons
from detol.workers.measures.probe import Probe
from detol.workers.tensors import Tensors

MEASURES: Mapping[str, Callable[[Probe], Mapping[str, Any]]] = {
    "edges": edges,
    "channels": channels,
    "neurons": neurons,
}
"""Every measure by name: the name under which its JSON text stands in a trial's extra facts."""


def measured(names: Sequence[str], model: nn.Module, topology: Topology, data: Tensors) -> dict[str, str]:
    """Return measures of a trained network, each as JSON text under its name.

    Args:
        names: of ``MEASURES``.
        model: ``build(topology, data.shape, data.outputs)``, trained; on the data's device. Its weights and its mode
            are as before afterwards.
        topology: of the model.
        data: only training samples are read.

    Raises:
        UsageError: an unknown measure.
    """
    for name in names:
        if name not in MEASURES:
            raise unknown("measure", name, MEASURES)
    training = model.training
    try:
        probe = Probe(model.eval(), topology, data)
        return {name: json.dumps(MEASURES[name](probe), separators=(",", ":")) for name in names}
    finally:
        model.train(training)
