"""A trained network under examination: its nodes' modules, its units, and two disjoint sets of training samples."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from detol.graph.build import module_names
from detol.graph.plan import Plan, plan
from detol.graph.topology import Topology
from detol.graph.units import Units, units
from detol.search.recipe import Recipe
from detol.workers.step import Criterion
from detol.workers.tensors import Tensors

SEEN = 2_048
"""Training samples on which saliencies and statistics are taken."""
HELD = 1_024
"""Other training samples on which the loss of a cut is checked."""
BATCH = 256

Change = Callable[[Tensor], Tensor]


class Probe:
    """A network in evaluation mode, so that samples do not touch each other.

    Args:
        model: the network of ``topology``.
        topology: what it was built from.
        data: only training samples are read: ``SEEN`` and ``HELD`` of them, or two thirds and one third of fewer.
    """

    def __init__(self, model: nn.Module, topology: Topology, data: Tensors) -> None:
        self.model: Any = model
        self.topology, self.data = topology, data
        self._criterion = Criterion(data, Recipe())
        count = len(data.train)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
        held = min(HELD, count // 3) or count
        self._held, self._seen = order[:held], order[held : held + SEEN] if held < count else order

    @cached_property
    def plan(self) -> Plan:
        """The plan that the network was built from."""
        return plan(self.topology, self.data.shape)

    @cached_property
    def units(self) -> Units:
        """The units of the network."""
        return units(self.topology, self.data.shape, self.data.outputs)

    @cached_property
    def modules(self) -> Mapping[str, nn.Module]:
        """The module of each outer node that has one, by the node's name."""
        keys = module_names(step.name for step in self.plan.steps)
        return {name: self.model.nodes[key] for name, key in keys.items() if key in self.model.nodes}

    @property
    def samples(self) -> int:
        """How many samples :meth:`seen` yields."""
        return len(self._seen)

    def seen(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches (standardised samples, targets) for saliencies and statistics."""
        yield from self._batches(self._seen)

    def _batches(self, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for part in torch.split(rows.to(self.data.device), BATCH):
            yield self.data.standardised(self.data.train.x[part]), self.data.train.y[part]

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the summed loss: cross-entropy in nats, or squared error of the standardised target."""
        return self._criterion(output.float(), target)

    @torch.inference_mode()
    def held_loss(self) -> float:
        """Return the mean loss over the held samples, with whatever changes are in force."""
        total = sum(self.loss(self.model(x), y).item() for x, y in self._batches(self._held))
        return total / len(self._held)

    @cached_property
    def plain_loss(self) -> float:
        """The mean loss over the held samples when nothing looks at the sample: what training started from.

        Classification: the entropy of the class shares, in nats. Regression: the variance, 1 when standardised.
        """
        target = self.data.train.y[self._held.to(self.data.device)]
        if self.data.task == "classification":
            share = torch.bincount(target).double() / len(target)
            return float(-(share * share.clamp_min(1e-12).log()).sum())
        return float(((target - self.data.target_mean) / self.data.target_std).double().square().mean())

    @contextlib.contextmanager
    def outputs(self, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
        """Collect what leaves some nodes in the next forward pass, by node."""
        found: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
            return lambda module, inputs, output: found.update({name: output})  # noqa: ARG005  torch's signature

        handles = [self.modules[name].register_forward_hook(keep(name)) for name in names]
        try:
            yield found
        finally:
            for handle in handles:
                handle.remove()

    @contextlib.contextmanager
    def changed(self, changes: Mapping[str, Callable[[Tensor, Tensor], Tensor]]) -> Iterator[None]:
        """Change what leaves some nodes: each function gets (what entered, what left) and returns what leaves."""

        def change(name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
            return lambda module, inputs, output: changes[name](inputs[0], output)  # noqa: ARG005

        handles = [self.modules[name].register_forward_hook(change(name)) for name in changes]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextlib.contextmanager
    def gated(self, gate: Callable[[str, str, Tensor], Tensor]) -> Iterator[None]:
        """Let ``gate(source, target, tensor)`` change the tensor on each edge between outer nodes."""
        merge = self.model._merge  # the one place that looks inside a network
        times = self.model._times

        def merged(step: Any, values: Any, projected: Any) -> Tensor:
            def gated_times(term: Any, values: Any, projected: Any) -> Tensor:
                return gate(term.source, step.name, times(term, values, projected))

            self.model._times = gated_times
            found: Tensor = merge(step, values, projected)
            return found

        self.model._merge, self.model._times = merged, times
        try:
            yield
        finally:
            del self.model._merge, self.model._times  # the class's own are back
