"""Costs, exactly as ``build`` builds: parameters, multiply-adds, activation bytes, depth; and memory for training.

Multiply-adds count convolutions and linear layers (of these a bias counts nothing); normalisation, activation,
pooling and sums are left out, as usual in tables. Activations are float32.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from detol.errors import TopologyError
from detol.graph.ops import Operation
from detol.graph.plan import Plan, Term, depth, own_depth, plan, projection_name
from detol.graph.shapes import Shape, number
from detol.graph.topology import Topology

FLOAT = 4
"""Bytes of a float32."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a network costs.

    Args:
        params: trainable parameters, projections and the head included.
        multiply_adds: multiplications with an addition, for one sample forwards.
        activation_bytes: bytes that one sample's tensors take in training: the output of each layer, float32.
        depth: the most operations on a path from input to output (merges, projections and the head do not count).
    """

    params: int
    multiply_adds: int
    activation_bytes: int
    depth: int


@dataclass(frozen=True, slots=True)
class Product:
    """The matrix product of a layer, for one sample and one group: (places x inner) by (inner x outputs).

    Args:
        places: positions of the output; 1 for a linear layer.
        inner: input channels of the group times the kernel's area.
        outputs: output channels of the group.
        groups: how many such products there are; as many as channels in a depthwise convolution.
        area: of the kernel, 1 for a linear layer and a 1x1 convolution.
        flat: whether it is a linear layer.
    """

    places: int
    inner: int
    outputs: int
    groups: int = 1
    area: int = 1
    flat: bool = False

    @property
    def multiply_adds(self) -> int:
        """Multiplications with an addition, for one sample forwards."""
        return self.places * self.inner * self.outputs * self.groups


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's parameters, multiply-adds and output values, for one sample; and its product, if it has one."""

    params: int
    multiply_adds: int
    values: int
    product: Product | None = None


Rule: TypeAlias = Callable[[Operation, Shape, Shape], Sequence[Layer]]

_RULES: dict[str, Rule] = {}

RULES: Mapping[str, Rule] = MappingProxyType(_RULES)
"""The cost rule of each kind, by its name (read-only; ``register`` adds to it)."""


def register(kind: str, rule: Rule) -> None:
    """Give a kind its cost rule: the layers of (operation, shape that enters, shape that leaves)."""
    _RULES[kind] = rule


def cost(topology: Topology, shape: Sequence[int], outputs: int) -> Cost:
    """Return what a network costs for samples of a shape and a head with ``outputs`` values.

    ``params`` is exactly the number of parameters of ``build(topology, shape, outputs)``.

    Raises:
        ShapeError: the topology does not fit the shape.
        TopologyError: the topology is dead, or an operation has no shape or cost rule.
    """
    found = plan(topology, shape)
    return _total([*_layers(found), *head(found.output, outputs)], prod(found.steps[0].after), depth(found))


def node_costs(topology: Topology, shape: Sequence[int], outputs: int) -> Mapping[str, Cost]:
    """Return the cost of each node of the normal form, of each projection, and of ``head``; they add up to ``cost``.

    A cell is one node. ``depth`` is the node's own. Errors as :func:`cost`.
    """
    found = plan(topology, shape)
    costs: dict[str, Cost] = {}
    for step in found.steps:
        entering = 0 if step.terms else prod(step.after)
        layers = _step_layers(step.work, step.terms, step.before, step.after)
        costs[step.name] = _total(layers, entering, own_depth(step.work))
    for term in found.projections:
        costs[projection_name(term)] = _total(projection(term.before, term.after), 0, 0)
    return costs | {"head": _total(head(found.output, outputs), 0, 0)}


def layers(topology: Topology, shape: Sequence[int], outputs: int) -> Sequence[Layer]:
    """Return the layers of a network one by one, in the order of the forward pass; they add up to ``cost``.

    A projection stands before the node that is the first to want it. Errors as :func:`cost`.
    """
    found = plan(topology, shape)
    return (*_layers(found), *head(found.output, outputs))


def memory(
    topology: Topology,
    shape: Sequence[int],
    outputs: int,
    batch_size: int,
    *,
    slots: int = 2,
    recomputed: bool = False,
) -> int:
    """Return an estimate of the bytes that training takes, in float32, without the library's own.

    Weights, gradients and ``slots`` values of optimiser state for each parameter (AdamW 2, SGD with momentum 1), each
    sample's activations, and the gradients of the largest of them. With ``recomputed`` only what enters and leaves the
    nodes is kept, and one node's inner activations at a time. Errors as :func:`cost`.
    """
    found = plan(topology, shape)
    layers = [*_layers(found), *head(found.output, outputs)]
    total = _total(layers, prod(found.steps[0].after), 0)
    largest = max(layer.values for layer in layers)
    kept = _kept(found) if recomputed else total.activation_bytes
    return total.params * FLOAT * (2 + slots) + batch_size * (min(kept, total.activation_bytes) + 2 * FLOAT * largest)


def _kept(found: Plan) -> int:
    """Return the bytes of one sample's tensors that are kept when each node's inner ones are computed again."""
    inner, between = 0, 0
    for step in found.steps:
        layers = _step_layers(step.work, step.terms, step.before, step.after)
        inner = max(inner, sum(layer.values for layer in layers))
        between += prod(step.after) + (prod(step.before) if len(step.terms) > 1 else 0)
    return FLOAT * (between + inner + sum(prod(term.after) for term in found.projections))


def _total(layers: Sequence[Layer], entering: int, deep: int) -> Cost:
    return Cost(
        params=sum(layer.params for layer in layers),
        multiply_adds=sum(layer.multiply_adds for layer in layers),
        activation_bytes=FLOAT * (entering + sum(layer.values for layer in layers)),
        depth=deep,
    )


def _layers(found: Plan) -> list[Layer]:
    layers: list[Layer] = []
    made: set[tuple[str, Shape]] = set()
    for step in found.steps:
        for term in step.terms:
            if term.projected and (term.source, term.after) not in made:
                made.add((term.source, term.after))
                layers += projection(term.before, term.after)
        layers += _step_layers(step.work, step.terms, step.before, step.after)
    return layers


def _step_layers(work: Operation | Plan, terms: Sequence[Term], before: Shape, after: Shape) -> list[Layer]:
    merge = [Layer(0, 0, prod(before))] if len(terms) > 1 or any(term.times > 1 for term in terms) else []
    if isinstance(work, Plan):
        return [*merge, *_layers(work)]
    if work.kind not in RULES:
        raise TopologyError(
            f"operation kind {work.kind!r} has no cost rule: give it one with detol.graph.cost.register"
        )
    return [*merge, *RULES[work.kind](work, before, after)]


def convolution(channels: int, after: Shape, kernel: int = 1, *, groups: int = 1, bias: bool = False) -> Layer:
    """Return the cost of a convolution of some input channels; on vectors (kernel 1) of a linear layer."""
    area = kernel ** (len(after) - 1)
    window = channels // groups * area
    product = Product(prod(after[1:]), window, after[0] // groups, groups, area, flat=len(after) == 1)
    return Layer(after[0] * (window + bias), prod(after) * window, prod(after), product)


def normalisation(after: Shape) -> Layer:
    """Return the cost of batch norm: a scale and a shift for each channel."""
    return Layer(2 * after[0], 0, prod(after))


def free(after: Shape) -> Layer:
    """Return the cost of a layer without parameters: its output."""
    return Layer(0, 0, prod(after))


def projection(before: Shape, after: Shape) -> list[Layer]:
    """Return the layers that bring a tensor to another shape: pooling to fewer values, then 1x1 with batch norm."""
    pooled = (before[0], *after[1:])
    layers = [free(pooled)] if pooled != before else []
    return layers + ([convolution(before[0], after), normalisation(after)] if pooled != after else [])


def head(before: Shape, outputs: int) -> list[Layer]:
    """Return the layers behind the output: global average pooling if axes are left, and a linear layer with bias."""
    return [*([free(before[:1])] if len(before) > 1 else []), convolution(before[0], (outputs,), bias=True)]


def _nothing(operation: Operation, before: Shape, after: Shape) -> list[Layer]:  # noqa: ARG001
    return []


def _one(operation: Operation, before: Shape, after: Shape) -> list[Layer]:  # noqa: ARG001
    return [free(after)]


def _norm(operation: Operation, before: Shape, after: Shape) -> list[Layer]:  # noqa: ARG001
    return [normalisation(after)]


def _around(operation: Operation, before: Shape, after: Shape, inner: list[Layer]) -> list[Layer]:
    """Put norm and activation where the operation wants them."""
    pre = dict(operation.parameters).get("order") == "pre"
    norm = [normalisation(after)] if operation["norm"] else []
    if operation["activation"] == "none":
        return [*inner, *norm]
    return [free(before), *inner, *norm] if pre else [*inner, *norm, free(after)]


def _conv(operation: Operation, before: Shape, after: Shape) -> list[Layer]:
    kernel, groups = number(operation, "kernel"), number(operation, "groups")
    inner = [convolution(before[0], after, kernel, groups=groups, bias=not operation["norm"])]
    return _around(operation, before, after, inner)


def _sepconv(operation: Operation, before: Shape, after: Shape) -> list[Layer]:
    between = (before[0], *after[1:])
    depthwise = convolution(before[0], between, number(operation, "kernel"), groups=before[0])
    pointwise = convolution(before[0], after, bias=not operation["norm"])
    return _around(operation, before, after, [depthwise, pointwise])


def _mbconv(operation: Operation, before: Shape, after: Shape) -> list[Layer]:
    factor, wide = number(operation, "expand"), before[0] * number(operation, "expand")
    acts = operation["activation"] != "none"

    def block(channels: int, shape: Shape, kernel: int, groups: int) -> Iterator[Layer]:
        yield convolution(channels, shape, kernel, groups=groups)
        yield normalisation(shape)
        if acts:
            yield free(shape)

    expand = list(block(before[0], (wide, *before[1:]), 1, 1)) if factor > 1 else []
    depthwise = list(block(wide, (wide, *after[1:]), number(operation, "kernel"), wide))
    return [*expand, *depthwise, convolution(wide, after), normalisation(after)]


def squeezed(operation: Operation, channels: int) -> int:
    """Return the width of the hidden layer of ``squeeze_excite``: channels / ratio, at least 1."""
    return max(1, channels // number(operation, "ratio"))


def _squeeze_excite(operation: Operation, before: Shape, after: Shape) -> list[Layer]:
    channels, hidden = (before[0],), (squeezed(operation, before[0]),)
    down = [convolution(before[0], hidden, bias=True), free(hidden)]
    up = [convolution(hidden[0], channels, bias=True), free(channels)]
    return [*([free(channels)] if len(before) > 1 else []), *down, *up, free(after)]


def _linear(operation: Operation, before: Shape, after: Shape) -> list[Layer]:
    inner = [convolution(before[0], after, bias=not operation["norm"])]
    dropout = [free(after), free(after)] if operation["dropout"] else []
    return [*_around(operation, before, after, inner), *dropout]


def _dropout(operation: Operation, before: Shape, after: Shape) -> list[Layer]:  # noqa: ARG001
    return [free(after), free(after)]  # the mask is kept as well


for _kind in ("input", "output", "identity", "add", "concat", "flatten"):
    register(_kind, _nothing)
for _kind in ("pool", "global_pool", "activation"):
    register(_kind, _one)
register("norm", _norm)
register("dropout", _dropout)
register("conv", _conv)
register("sepconv", _sepconv)
register("mbconv", _mbconv)
register("squeeze_excite", _squeeze_excite)
register("linear", _linear)
