"""One operation as Python source: the constructors of the torch modules that it is made of.

Written beside ``detol.graph.build`` and by itself: that both compute the same is checked with every export. The modules
that hold weights stand in the same order as in ``build``, by which the weights are handed over.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from detol.errors import TopologyError
from detol.graph.cost import squeezed
from detol.graph.ops import Operation
from detol.graph.shapes import Shape, number

Writer: TypeAlias = Callable[[Operation, Shape, Shape], Sequence[str]]

_WRITERS: dict[str, Writer] = {}

WRITERS: Mapping[str, Writer] = MappingProxyType(_WRITERS)
"""The writer of each kind that does something, by its name (read-only; ``register`` adds to it)."""


def register(kind: str, writer: Writer) -> None:
    """Give a kind its source: from (operation, shape that enters, shape that leaves) to constructors, in order.

    They may use ``torch``, ``nn`` and ``F``. Write widths with :func:`wide`.
    """
    _WRITERS[kind] = writer


def constructors(operation: Operation, before: Shape, after: Shape) -> Sequence[str]:
    """Return the constructors of an operation's modules, in the order in which they are called.

    Raises:
        TopologyError: a kind without a writer.
    """
    if operation.kind not in WRITERS:
        raise TopologyError(
            f"operation kind {operation.kind!r} has no Python source: give it one with detol.export.layers.register, "
            "or leave out --format python"
        )
    return WRITERS[operation.kind](operation, before, after)


def wide(count: int) -> str:
    """Return a number of channels or features, marked: in a cell that is used in several widths it may be a name."""
    return f"«{count}»"


def projection(before: Shape, after: Shape) -> list[str]:
    """Return the constructors that bring a tensor to another shape: average pooling, then 1x1 with batch norm."""
    found = []
    if before[1:] != after[1:]:
        if len(after) == 1:
            found += global_pool("Avg", len(before))
        else:
            strides = [n // m for n, m in zip(before[1:], after[1:], strict=True)]
            windows = [n - (m - 1) * s for n, m, s in zip(before[1:], after[1:], strides, strict=True)]
            found.append(f"nn.AvgPool{len(after) - 1}d({_each(windows)}, stride={_each(strides)})")
    if before[0] != after[0]:
        found += [convolution(before[0], after), norm(after)]
    return found


def head(before: Shape, outputs: int) -> list[str]:
    """Return the constructors behind the output node: global average pooling if axes are left, and a linear layer."""
    pool = global_pool("Avg", len(before)) if len(before) > 1 else []
    return [*pool, f"nn.Linear({before[0]}, {outputs})"]


def convolution(
    before: int,
    after: Shape,
    kernel: int = 1,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int | str = 1,
    bias: bool = False,
) -> str:
    """Return a convolution whose padding keeps the size at stride 1; of vectors (kernel 1) a linear layer."""
    told = {"bias": "False"} if not bias else {}
    if len(after) == 1:
        return _call("nn.Linear", wide(before), wide(after[0]), **told)
    options = {"stride": stride, "padding": dilation * (kernel - 1) // 2, "dilation": dilation, "groups": groups}
    chosen = {name: value for name, value in options.items() if value != (0 if name == "padding" else 1)}
    return _call(f"nn.Conv{len(after) - 1}d", wide(before), wide(after[0]), kernel, **chosen, **told)


def norm(after: Shape) -> str:
    """Return batch norm for (B, *after)."""
    return f"nn.BatchNorm{max(1, len(after) - 1)}d({wide(after[0])})"


def global_pool(mode: str, rank: int) -> list[str]:
    """Return (B, C, ...) to (B, C), ``mode`` being Avg or Max and ``rank`` the axes of a sample."""
    return [f"nn.Adaptive{mode}Pool{rank - 1}d(1)", "nn.Flatten()"]


_ACTIVATIONS = {"relu": "nn.ReLU()", "gelu": "nn.GELU()", "silu": "nn.SiLU()", "tanh": "nn.Tanh()"}


def _act(operation: Operation, name: str = "activation") -> list[str]:
    fn = str(operation[name])
    return [] if fn == "none" else [_ACTIVATIONS[fn]]


def _around(operation: Operation, after: Shape, *inner: str) -> list[str]:
    normed = [norm(after)] if operation["norm"] else []
    if dict(operation.parameters).get("order") == "pre":
        return [*_act(operation), *inner, *normed]
    return [*inner, *normed, *_act(operation)]


def _conv(operation: Operation, before: Shape, after: Shape) -> list[str]:
    stride, dilation, groups = (number(operation, name) for name in ("stride", "dilation", "groups"))
    kernel, bias = number(operation, "kernel"), not operation["norm"]
    conv = convolution(before[0], after, kernel, stride=stride, dilation=dilation, groups=groups, bias=bias)
    return _around(operation, after, conv)


def _sepconv(operation: Operation, before: Shape, after: Shape) -> list[str]:
    between, kernel = (before[0], *after[1:]), number(operation, "kernel")
    stride, dilation = number(operation, "stride"), number(operation, "dilation")
    depthwise = convolution(before[0], between, kernel, stride=stride, dilation=dilation, groups=wide(before[0]))
    return _around(operation, after, depthwise, convolution(before[0], after, bias=not operation["norm"]))


def _mbconv(operation: Operation, before: Shape, after: Shape) -> list[str]:
    expand_by, kernel, stride = (number(operation, name) for name in ("expand", "kernel", "stride"))
    width = before[0] * expand_by
    inner, between = (width, *before[1:]), (width, *after[1:])
    expand = [convolution(before[0], inner), norm(inner), *_act(operation)] if width > before[0] else []
    depthwise = convolution(width, between, kernel, stride=stride, groups=wide(width))
    return [*expand, depthwise, norm(between), *_act(operation), convolution(width, after), norm(after)]


def _squeeze_excite(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return [f"SqueezeExcite({wide(before[0])}, {wide(squeezed(operation, before[0]))})"]


def _pool(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    kernel, stride = number(operation, "kernel"), number(operation, "stride")
    options: dict[str, str | int] = {"stride": stride}
    if kernel > 1:
        options["padding"] = (kernel - 1) // 2
    if operation["mode"] == "avg" and kernel > 1:
        options["count_include_pad"] = "False"
    return [_call(f"nn.{str(operation['mode']).capitalize()}Pool{len(after) - 1}d", kernel, **options)]


def _global_pool(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return global_pool(str(operation["mode"]).capitalize(), len(before))


def _flatten(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return ["nn.Flatten()"]


def _linear(operation: Operation, before: Shape, after: Shape) -> list[str]:
    dropout = [f"nn.Dropout({operation['dropout']})"] if operation["dropout"] else []
    linear = _call("nn.Linear", wide(before[0]), wide(after[0]), **({"bias": "False"} if operation["norm"] else {}))
    return [*_around(operation, after, linear), *dropout]


def _dropout(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return [f"nn.Dropout({operation['rate']})"]


def _norm(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return [norm(after)]


def _activation(operation: Operation, before: Shape, after: Shape) -> list[str]:  # noqa: ARG001
    return _act(operation, "fn") or ["nn.Identity()"]


def _call(name: str, *arguments: str | int, **named: str | int) -> str:
    return f"{name}({', '.join([*map(str, arguments), *(f'{key}={value}' for key, value in named.items())])})"


def _each(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else str(tuple(sizes))


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
