"""Torch modules from topologies.

A network is built from the *normal form* and in its canonical order. So topologies of equal digest give the same
network up to the names of submodules, and under the same seed also the same initial weights: their results can be
exchanged. Keys of the state dict depend on names of nodes alone: ``nodes.NAME...``, ``projections.SOURCE_to_SHAPE...``,
``head...``; a cell's come below its node's. Shapes in here are per sample, without the batch axis.
"""

import functools
import operator
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from detol.errors import TopologyError
from detol.graph.cost import squeezed
from detol.graph.ops import Operation
from detol.graph.plan import Plan, Step, Term, plan, projection_name
from detol.graph.shapes import Shape, number
from detol.graph.topology import Topology

Builder: TypeAlias = Callable[[Operation, Shape, Shape], nn.Module]

_BUILDERS: dict[str, Builder] = {}

BUILDERS: Mapping[str, Builder] = MappingProxyType(_BUILDERS)
"""The builder of each kind that does something, by its name (read-only; ``register`` adds to it)."""


def register(kind: str, builder: Builder) -> None:
    """Give a kind its module: from (operation, shape that enters, shape that leaves), shapes without batch axis."""
    _BUILDERS[kind] = builder


def build(topology: Topology, shape: Sequence[int], outputs: int) -> nn.Module:
    """Return the network as a module that maps (B, *shape) float32 to (B, outputs), with fresh weights.

    Where tensors that are summed or concatenated differ in shape they are projected: average pooling to the smallest
    size, then, for a sum with other channels, a 1x1 convolution with batch norm. Behind the output node come global
    average pooling (if axes are left) and a linear layer. Weights start as He et al. 2015 (arXiv 1502.01852, eq. 10),
    drawn from torch's global generator.

    Args:
        topology: a topology that is not dead.
        shape: of one sample: (C, H, W), (C, L) or (F,).
        outputs: classes, or values of a regression.

    Raises:
        ShapeError: the topology does not fit the shape.
        TopologyError: the topology is dead, or an operation cannot be built.
    """
    network = Network(plan(topology, shape), outputs)
    _start(network)
    return network


class Body(nn.Module):
    """The nodes of a plan: a cell, or the whole of a network but its head. Maps (B, *shape) to (B, *output)."""

    def __init__(self, made: Plan) -> None:
        super().__init__()
        names = module_names(step.name for step in made.steps)
        self.nodes = nn.ModuleDict()
        self.projections = nn.ModuleDict()
        self._steps = [_Run(step, names[step.name]) for step in made.steps]
        keys = module_names(projection_name(term) for term in made.projections)
        self._projected = {(t.source, t.after): keys[projection_name(t)] for t in made.projections}
        for step in made.steps:
            module = _module(step)
            if module is not None:
                self.nodes[names[step.name]] = module
        for term in made.projections:
            self.projections[self._projected[term.source, term.after]] = Projection(term.before, term.after)
        last = {term.source: step.name for step in made.steps for term in step.terms}
        self._done = {step.name: [s for s, user in last.items() if user == step.name] for step in made.steps}

    def forward(self, x: Tensor) -> Tensor:
        """Compute all nodes in order, each tensor kept no longer than it is needed."""
        values: dict[str, Tensor] = {}
        projected: dict[tuple[str, Shape], Tensor] = {}
        for run in self._steps:
            step = run.step
            merged = self._merge(step, values, projected) if step.terms else x
            values[step.name] = self.nodes[run.key](merged) if run.key in self.nodes else merged
            for name in self._done[step.name]:
                del values[name]
        return values[self._steps[-1].step.name]

    def _merge(self, step: Step, values: dict[str, Tensor], projected: dict[tuple[str, Shape], Tensor]) -> Tensor:
        parts = [self._times(term, values, projected) for term in step.terms]
        return torch.cat(parts, dim=1) if step.concat else functools.reduce(operator.add, parts)

    def _times(self, term: Term, values: dict[str, Tensor], projected: dict[tuple[str, Shape], Tensor]) -> Tensor:
        value = values[term.source]
        if term.projected:
            key = (term.source, term.after)
            if key not in projected:
                projected[key] = self.projections[self._projected[key]](value)
            value = projected[key]
        return value if term.times == 1 else value * term.times


class Network(Body):
    """A body and its head: global average pooling if axes are left, and a linear layer."""

    def __init__(self, made: Plan, outputs: int) -> None:
        super().__init__(made)
        layers: list[tuple[str, nn.Module]] = [("pool", GlobalPool("avg"))] if len(made.output) > 1 else []
        self.head = nn.Sequential(OrderedDict([*layers, ("linear", nn.Linear(made.output[0], outputs))]))

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, *shape) to (B, outputs)."""
        found: Tensor = self.head(super().forward(x))
        return found


class _Run:
    """A step and the key of its module."""

    def __init__(self, step: Step, key: str) -> None:
        self.step = step
        self.key = key


def _module(step: Step) -> nn.Module | None:
    if isinstance(step.work, Plan):
        return Body(step.work)
    if step.work.kind in ("input", "output", "add", "concat"):
        return None
    if step.work.kind not in BUILDERS:
        raise TopologyError(
            f"operation kind {step.work.kind!r} has no module: give it one with detol.graph.build.register"
        )
    return BUILDERS[step.work.kind](step.work, step.before, step.after)


def module_names(names: Iterable[str]) -> dict[str, str]:
    """Return a key for each name that torch takes as the name of a submodule, readable and different for each."""
    found: dict[str, str] = {}
    for name in names:
        key = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        while key in found.values() or hasattr(nn.ModuleDict, key) or key == "training":
            key += "_"
        found[name] = key
    return found


# By the number of axes of a sample, channels included.
_CONV: Mapping[int, Callable[..., nn.Module]] = {2: nn.Conv1d, 3: nn.Conv2d, 4: nn.Conv3d}
_NORM: Mapping[int, Callable[[int], nn.Module]] = {
    1: nn.BatchNorm1d,
    2: nn.BatchNorm1d,
    3: nn.BatchNorm2d,
    4: nn.BatchNorm3d,
}
_AVERAGE: Mapping[int, Callable[..., nn.Module]] = {2: nn.AvgPool1d, 3: nn.AvgPool2d, 4: nn.AvgPool3d}
_MAXIMUM: Mapping[int, Callable[..., nn.Module]] = {2: nn.MaxPool1d, 3: nn.MaxPool2d, 4: nn.MaxPool3d}
_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


def _start(network: nn.Module) -> None:
    """Draw fresh weights from torch's global generator: normal, variance 2 / fan-in (He et al. 2015, eq. 10)."""
    for module in network.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _convolution(
    before: int, after: int, rank: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1, bias: bool
) -> nn.Module:
    return _CONV[rank](
        before,
        after,
        kernel,
        stride=stride,
        padding=dilation * (kernel - 1) // 2,
        dilation=dilation,
        groups=groups,
        bias=bias,
    )


class GlobalPool(nn.Module):
    """Average or maximum over all axes behind the channels: (B, C, ...) -> (B, C)."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, ...) to (B, C)."""
        values = x.flatten(2)
        return values.mean(dim=2) if self.mode == "avg" else values.amax(dim=2)

    def extra_repr(self) -> str:
        """Return the mode."""
        return self.mode


class Projection(nn.Module):
    """Brings (B, *before) to (B, *after): average pooling, then 1x1 with batch norm if channels differ."""

    def __init__(self, before: Shape, after: Shape) -> None:
        super().__init__()
        self.pool: nn.Module = _pool_to(before[1:], after[1:])
        if before[0] != after[0]:
            rank = len(after)
            self.conv = (
                nn.Linear(before[0], after[0], bias=False)
                if rank == 1
                else _convolution(before[0], after[0], rank, 1, bias=False)
            )
            self.norm = _NORM[rank](after[0])
        self.changes = before[0] != after[0]

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, *before) to (B, *after)."""
        pooled: Tensor = self.pool(x)
        return self.norm(self.conv(pooled)) if self.changes else pooled


def _pool_to(before: Shape, after: Shape) -> nn.Module:
    """Return pooling from sizes to smaller sizes, by one window: stride n // m, width n - (m - 1) * stride."""
    if before == after:
        return nn.Identity()
    if not after:
        return GlobalPool("avg")
    strides = tuple(n // m for n, m in zip(before, after, strict=True))
    windows = tuple(n - (m - 1) * s for n, m, s in zip(before, after, strides, strict=True))
    return _AVERAGE[len(before) + 1](windows, stride=strides)


class SqueezeExcite(nn.Module):
    """Scales channels by gates computed from their means (Hu et al. 2018, arXiv 1709.01507, eq. 2-4)."""

    def __init__(self, channels: int, hidden: int, axes: int) -> None:
        super().__init__()
        self.squeeze: nn.Module = GlobalPool("avg") if axes else nn.Identity()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, ...) to the same shape."""
        gates = torch.sigmoid(self.up(F.relu(self.down(self.squeeze(x)))))
        return x * gates.reshape(gates.shape + (1,) * self.axes)


def _named(*layers: tuple[str, nn.Module]) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


def _act(operation: Operation, name: str = "activation") -> list[tuple[str, nn.Module]]:
    fn = operation[name]
    return [] if fn == "none" else [("activation", _ACTIVATIONS[str(fn)]())]


def _around(operation: Operation, after: Shape, *inner: tuple[str, nn.Module]) -> nn.Sequential:
    """Put norm and activation where the operation wants them."""
    norm = [("norm", _NORM[len(after)](after[0]))] if operation["norm"] else []
    if dict(operation.parameters).get("order") == "pre":
        return _named(*_act(operation), *inner, *norm)
    return _named(*inner, *norm, *_act(operation))


def _conv(operation: Operation, before: Shape, after: Shape) -> nn.Module:
    conv = _convolution(
        before[0],
        after[0],
        len(after),
        number(operation, "kernel"),
        stride=number(operation, "stride"),
        dilation=number(operation, "dilation"),
        groups=number(operation, "groups"),
        bias=not operation["norm"],
    )
    return _around(operation, after, ("conv", conv))


def _sepconv(operation: Operation, before: Shape, after: Shape) -> nn.Module:
    depthwise = _convolution(
        before[0],
        before[0],
        len(after),
        number(operation, "kernel"),
        stride=number(operation, "stride"),
        dilation=number(operation, "dilation"),
        groups=before[0],
        bias=False,
    )
    pointwise = _convolution(before[0], after[0], len(after), 1, bias=not operation["norm"])
    return _around(operation, after, ("depthwise", depthwise), ("pointwise", pointwise))


def _mbconv(operation: Operation, before: Shape, after: Shape) -> nn.Module:
    rank, wide = len(after), before[0] * number(operation, "expand")
    kernel, stride = number(operation, "kernel"), number(operation, "stride")
    parts: list[tuple[str, nn.Module]] = []
    if wide > before[0]:
        expand = _convolution(before[0], wide, rank, 1, bias=False)
        parts.append(("expand", _named(("conv", expand), ("norm", _NORM[rank](wide)), *_act(operation))))
    depthwise = _convolution(wide, wide, rank, kernel, stride=stride, groups=wide, bias=False)
    parts.append(("depthwise", _named(("conv", depthwise), ("norm", _NORM[rank](wide)), *_act(operation))))
    project = _convolution(wide, after[0], rank, 1, bias=False)
    parts.append(("project", _named(("conv", project), ("norm", _NORM[rank](after[0])))))
    return _named(*parts)


def _squeeze_excite(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    return SqueezeExcite(before[0], squeezed(operation, before[0]), len(before) - 1)


def _pool(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    kernel, stride = number(operation, "kernel"), number(operation, "stride")
    if operation["mode"] == "max":
        return _MAXIMUM[len(after)](kernel, stride=stride, padding=(kernel - 1) // 2)
    return _AVERAGE[len(after)](kernel, stride=stride, padding=(kernel - 1) // 2, count_include_pad=False)


def _global_pool(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    return GlobalPool(str(operation["mode"]))


def _flatten(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    return nn.Flatten()


def _linear(operation: Operation, before: Shape, after: Shape) -> nn.Module:
    rate = operation["dropout"]
    linear = nn.Linear(before[0], after[0], bias=not operation["norm"])
    layers = list(_around(operation, after, ("linear", linear)).named_children())
    return _named(*layers, *([("dropout", nn.Dropout(float(rate)))] if rate else []))


def _dropout(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    rate = operation["rate"]
    assert isinstance(rate, float)
    return nn.Dropout(rate)


def _norm(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    return _NORM[len(after)](after[0])


def _activation(operation: Operation, before: Shape, after: Shape) -> nn.Module:  # noqa: ARG001
    return _act(operation, "fn")[0][1]


register("conv", _conv)
register("sepconv", _sepconv)
register("mbconv", _mbconv)
register("squeeze_excite", _squeeze_excite)
register("pool", _pool)
register("global_pool", _global_pool)
register("flatten", _flatten)
register("linear", _linear)
register("dropout", _dropout)
register("norm", _norm)
register("activation", _activation)
