"""Shapes: what each operation makes of its input's shape, and what a sum or a concatenation makes of several.

A shape is per sample, channels first, without the batch axis: (C, H, W), (C, L), (F,).
Convolutions and pooling pad as "same": padding = dilation * (kernel - 1) // 2 on each side, so that each axis of
length n comes out as ceil(n / stride).
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from detol.errors import ShapeError, TopologyError
from detol.graph.ops import Operation
from detol.graph.topology import Topology

Shape: TypeAlias = tuple[int, ...]
Rule: TypeAlias = Callable[[Operation, Shape], Shape]

_RULES: dict[str, Rule] = {}

RULES: Mapping[str, Rule] = MappingProxyType(_RULES)
"""The shape rule of each kind, by its name (read-only; ``register`` adds to it)."""


def register(kind: str, rule: Rule) -> None:
    """Give a kind of operation its shape rule: a function of the operation and the shape that enters it.

    The rule returns the shape that leaves, or raises :class:`ShapeError` with the rule and the remedy (the node and
    the shape are added). A user's kind needs ``ops.define``, this, and to be trained ``cost.register`` and
    ``build.register``.
    """
    _RULES[kind] = rule


def infer(topology: Topology, shape: Sequence[int]) -> Mapping[str, Shape]:
    """Return the shape after each live node, by the node's name.

    Args:
        topology: a topology that is not dead.
        shape: of one sample: (C, H, W), (C, L) or (F,).

    Raises:
        ShapeError: an operation does not take the shape that reaches it, or ``shape`` is none.
        TopologyError: the topology is dead.
    """
    from detol.graph.plan import plan  # plan needs the rules above

    found = plan(topology, shape)
    return MappingProxyType(
        {step.name: step.after for step in found.steps}
        | {name: merged([found.after(source) for source in terms]) for name, terms in found.form.contracted.items()}
    )


def checked(shape: Sequence[int]) -> Shape:
    """Return a sample's shape as a tuple, after a check.

    Raises:
        ShapeError: it has no axis or more than four, or one that is not a whole number >= 1.
    """
    found = tuple(int(size) for size in shape)
    if not 1 <= len(found) <= 4 or any(size < 1 for size in found) or found != tuple(shape):
        raise ShapeError(f"a sample has shape (C, H, W), (C, L) or (F,) of whole numbers >= 1, got {tuple(shape)}")
    return found


def merged(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a sum: the most channels, the smallest size along each axis; a vector where one is a vector.

    Tensors of another shape are projected to it.

    Raises:
        ShapeError: tensors with different numbers of axes, none of them a vector.
    """
    return (max(shape[0] for shape in shapes), *_sizes(shapes))


def concatenated(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a concatenation: channels add up; sizes and errors as in :func:`merged`."""
    return (sum(shape[0] for shape in shapes), *_sizes(shapes))


def _sizes(shapes: Sequence[Shape]) -> Shape:
    ranks = {len(shape) for shape in shapes}
    if 1 in ranks:
        return ()
    if len(ranks) > 1:
        raise ShapeError(
            f"tensors that meet have equally many axes, got {sorted(set(shapes))}: flatten or pool them first"
        )
    return tuple(min(sizes) for sizes in zip(*(shape[1:] for shape in shapes), strict=True))


def leaves(operation: Operation, shape: Shape) -> Shape:
    """Return the shape that leaves an operation which ``shape`` enters.

    Raises:
        ShapeError: the operation does not take this shape.
        TopologyError: the kind has no shape rule.
    """
    if operation.kind not in RULES:
        raise TopologyError(
            f"operation kind {operation.kind!r} has no shape rule, so it can be compared but not built: "
            "give it one with detol.graph.shapes.register"
        )
    return RULES[operation.kind](operation, shape)


def number(operation: Operation, name: str) -> int:
    """Return a meta-parameter that is a whole number."""
    value = operation[name]
    assert isinstance(value, int)
    return value


def width(operation: Operation, name: str, default: int) -> int:
    """Return a meta-parameter that is a whole number, or ``default`` where it is None ("as many as the input")."""
    value = operation[name]
    assert value is None or isinstance(value, int)
    return default if value is None else value


def _unchanged(operation: Operation, shape: Shape) -> Shape:  # noqa: ARG001  the operation does not matter
    return shape


def _strided(operation: Operation, shape: Shape) -> Shape:
    stride = number(operation, "stride")
    return tuple(-(-size // stride) for size in shape[1:])


def _axes(operation: Operation, shape: Shape, remedy: str) -> None:
    if len(shape) == 1:
        raise ShapeError(f"{operation} needs an input with axes, (C, H, W) or (C, L): {remedy}")


def _convolution(operation: Operation, shape: Shape) -> Shape:
    _axes(operation, shape, "use linear on feature vectors")
    channels = width(operation, "channels", shape[0])
    groups = number(operation, "groups") if operation.kind == "conv" else 1
    if shape[0] % groups or channels % groups:
        raise ShapeError(
            f"{operation} needs groups that divide the channels in ({shape[0]}) and out ({channels}): "
            "change groups or channels"
        )
    return (channels, *_strided(operation, shape))


def _pool(operation: Operation, shape: Shape) -> Shape:
    _axes(operation, shape, "leave it out on feature vectors")
    if len(shape) == 4 and number(operation, "kernel") > min(shape[1:]):  # torch refuses to average there
        raise ShapeError(f"{operation} needs a volume at least as wide as its kernel: use a smaller kernel")
    return (shape[0], *_strided(operation, shape))


def _global_pool(operation: Operation, shape: Shape) -> Shape:
    _axes(operation, shape, "leave it out, a vector has nothing to pool")
    return shape[:1]


def _flatten(operation: Operation, shape: Shape) -> Shape:  # noqa: ARG001
    return (prod(shape),)


def _linear(operation: Operation, shape: Shape) -> Shape:
    if len(shape) > 1:
        raise ShapeError(f"{operation} needs a feature vector (F,): put flatten or global_pool before it")
    return (width(operation, "features", shape[0]),)


for _kind in ("input", "output", "identity", "add", "concat", "squeeze_excite", "dropout", "norm", "activation"):
    register(_kind, _unchanged)
for _kind in ("conv", "sepconv", "mbconv"):
    register(_kind, _convolution)
register("pool", _pool)
register("global_pool", _global_pool)
register("flatten", _flatten)
register("linear", _linear)
