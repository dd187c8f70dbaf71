"""What one training step of a network asks of a machine: its layers, its gradients, the bytes of its samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from detol.graph.cost import FLOAT, Layer, layers
from detol.graph.topology import Topology

BUCKET = 25 * 2**20
"""Bytes of gradients that are sent together: torch's DistributedDataParallel."""

FIRST_BUCKET = 2**20
"""Of the first bucket, so that sending begins early: likewise."""


@dataclass(frozen=True)
class Work:
    """A network as the planner sees it.

    Args:
        name: for people.
        layers: in the order of the forward pass.
        sample_bytes: of one sample as it is stored.
        sample_values: numbers of one sample.
    """

    name: str
    layers: tuple[Layer, ...]
    sample_bytes: float
    sample_values: int

    @classmethod
    def of(
        cls, topology: Topology, shape: Sequence[int], outputs: int, *, name: str = "", value_bytes: float = FLOAT
    ) -> "Work":
        """Return the work of a topology for samples of a shape, ``value_bytes`` for each of their numbers.

        Raises:
            TopologyError: the topology does not fit the shape, is dead, or has an operation without a cost rule.
        """
        values = prod(shape)
        return cls(name, tuple(layers(topology, shape, outputs)), values * value_bytes, values)

    @cached_property
    def params(self) -> int:
        """Trainable parameters."""
        return sum(layer.params for layer in self.layers)

    @cached_property
    def tensors(self) -> int:
        """About how many tensors the parameters are: a weight for each product, two for each norm."""
        return sum((1 if layer.product else 2) for layer in self.layers if layer.params)

    @cached_property
    def multiply_adds(self) -> int:
        """Of one sample, forwards."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def gradient_bytes(self) -> int:
        """Of the gradient in 32 bit."""
        return FLOAT * self.params

    @property
    def least(self) -> int:
        """Samples that each rank needs in a step: 2 where batch norm takes a variance, otherwise 1."""
        return 2 if any(layer.params and layer.product is None for layer in self.layers) else 1

    @cached_property
    def buckets(self) -> tuple[tuple[int, int], ...]:
        """Buckets of gradients as they become ready, the last layer's first: (bytes, index of its last layer).

        A bucket is closed when it is full; a layer is not cut.
        """
        found, size, limit = [], 0, FIRST_BUCKET
        for index in range(len(self.layers) - 1, -1, -1):
            size += FLOAT * self.layers[index].params
            if size >= limit:
                found.append((size, index))
                size, limit = 0, BUCKET
        return (*found, (size, 0)) if size else tuple(found)
