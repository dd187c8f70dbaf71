"""Operations: what a node of a topology computes, with its meta-parameters.

An :class:`Operation` is a frozen value; the catalogue ``KINDS`` says which kinds exist, which meta-parameters each has,
and how a node of that kind merges several incoming edges. Shape rules are in ``shapes``, cost rules in ``cost``, torch
modules in ``build``; each is keyed by the kind's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from detol.errors import TopologyError, unknown

Value = bool | int | float | str | None
"""A meta-parameter or a decision: what JSON can hold in one cell."""


class Merge(StrEnum):
    """How a node combines the tensors on its incoming edges."""

    SUM = "sum"
    """Elementwise sum, an edge's multiplicity counted; the order does not matter."""
    CONCAT = "concat"
    """Concatenation along channels (or features) in the order of the edges."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One meta-parameter of a kind: its default, its rule in words, and the test of the rule.

    ``REQUIRED`` as a default means that every operation of the kind must give it.
    """

    default: Value
    rule: str
    allows: Callable[[Value], bool]


REQUIRED = "<required>"
_BITS = 64
"""Of whole numbers that a message shows; Python writes none of over 4300 digits."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of operation.

    ``weighted`` tells whether two equal operations on equal inputs are still two (each has weights of its own).
    """

    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    merge: Merge = Merge.SUM
    weighted: bool = True


def _whole(low: int, *, optional: bool = False) -> Callable[[Value], bool]:
    def allows(value: Value) -> bool:
        return (optional and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= low)

    return allows


def _among(*names: str) -> Callable[[Value], bool]:
    return lambda value: value in names


def _share(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1


def _boolean(value: Value) -> bool:
    return isinstance(value, bool)


def _text(value: Value) -> bool:
    return isinstance(value, str) and bool(value)


def _anything(value: Value) -> bool:  # noqa: ARG001  every value of the type is allowed
    return True


ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "none")

_KERNEL = Parameter(3, "an odd whole number >= 1", lambda v: _whole(1)(v) and int(v or 0) % 2 == 1)
_CHANNELS = Parameter(None, "a whole number >= 1, or None for as many as the input has", _whole(1, optional=True))
_STRIDE = Parameter(1, "a whole number >= 1", _whole(1))
_DILATION = Parameter(1, "a whole number >= 1", _whole(1))
_ACTIVATION = Parameter("relu", f"one of {', '.join(ACTIVATIONS)}", _among(*ACTIVATIONS))
_NORM = Parameter(True, "true or false", _boolean)
_ORDER = Parameter("post", "post (conv, norm, activation) or pre (activation, conv, norm)", _among("post", "pre"))
_RATE = Parameter(0.0, "a share in [0, 1)", _share)

_KINDS: dict[str, Kind] = {}

KINDS: Mapping[str, Kind] = MappingProxyType(_KINDS)
"""Every kind of operation by name (read-only; ``define`` adds to it)."""


def define(kind: Kind) -> Kind:
    """Add a kind of operation to the catalogue, e.g. one of a published table that is never built.

    Raises:
        TopologyError: another kind of that name exists already.
    """
    if _KINDS.get(kind.name, kind).parameters.keys() != kind.parameters.keys():
        raise TopologyError(f"operation kind {kind.name!r} exists with other meta-parameters: choose another name")
    return _KINDS.setdefault(kind.name, kind)


for _kind in (
    Kind("input", weighted=False),
    Kind("output", weighted=False),
    Kind("identity", weighted=False),
    Kind("zero", weighted=False),
    Kind("add", weighted=False),
    Kind("concat", merge=Merge.CONCAT, weighted=False),
    # Convolutions work on (channels, height, width) and on (channels, length): the input's rank decides.
    Kind(
        "conv",
        {
            "kernel": _KERNEL,
            "channels": _CHANNELS,
            "stride": _STRIDE,
            "dilation": _DILATION,
            "groups": Parameter(1, "a whole number >= 1 that divides the channels", _whole(1)),
            "activation": _ACTIVATION,
            "norm": _NORM,
            "order": _ORDER,
        },
    ),
    # Depthwise, then pointwise convolution (Chollet 2017, arXiv 1610.02357).
    Kind(
        "sepconv",
        {
            "kernel": _KERNEL,
            "channels": _CHANNELS,
            "stride": _STRIDE,
            "dilation": _DILATION,
            "activation": _ACTIVATION,
            "norm": _NORM,
            "order": _ORDER,
        },
    ),
    # Inverted bottleneck without its residual: expand, depthwise, project (Sandler et al. 2018, arXiv 1801.04381).
    Kind(
        "mbconv",
        {
            "kernel": _KERNEL,
            "channels": _CHANNELS,
            "stride": _STRIDE,
            "expand": Parameter(4, "a whole number >= 1", _whole(1)),
            "activation": _ACTIVATION,
        },
    ),
    # Channel attention (Hu et al. 2018, arXiv 1709.01507).
    Kind("squeeze_excite", {"ratio": Parameter(4, "a whole number >= 1", _whole(1))}),
    Kind(
        "pool",
        {"mode": Parameter("avg", "avg or max", _among("avg", "max")), "kernel": _KERNEL, "stride": _STRIDE},
        weighted=False,
    ),
    Kind("global_pool", {"mode": Parameter("avg", "avg or max", _among("avg", "max"))}, weighted=False),
    Kind("flatten", weighted=False),
    # Acts on feature vectors; an input with axes left is refused by its shape rule.
    Kind(
        "linear",
        {
            "features": Parameter(
                None, "a whole number >= 1, or None for as many as the input has", _whole(1, optional=True)
            ),
            "activation": _ACTIVATION,
            "norm": _NORM,
            "dropout": _RATE,
        },
    ),
    Kind("dropout", {"rate": _RATE}),
    Kind("norm"),
    Kind("activation", {"fn": _ACTIVATION}, weighted=False),
    # A decision that stands for a layer nobody builds here: for published tables given without a graph.
    Kind(
        "symbol",
        {
            "name": Parameter(REQUIRED, "a name", _text),
            "value": Parameter(REQUIRED, "any value", _anything),
        },
    ),
):
    define(_kind)


@dataclass(frozen=True, slots=True, order=True)
class Operation:
    """One operation: a kind and all of its meta-parameters, sorted by name. Make one with :func:`op`."""

    kind: str
    parameters: tuple[tuple[str, Value], ...] = ()

    def __getitem__(self, name: str) -> Value:
        """Return one meta-parameter; ``KeyError`` when the kind has none of that name."""
        for key, value in self.parameters:
            if key == name:
                return value
        raise KeyError(name)

    def __str__(self) -> str:
        """Return e.g. ``conv(kernel=5)``: the meta-parameters that differ from their defaults."""
        known = KINDS[self.kind].parameters
        shown = ", ".join(f"{k}={v}" for k, v in self.parameters if v != known[k].default)
        return f"{self.kind}({shown})" if shown else self.kind

    def replace(self, **changes: Value) -> "Operation":
        """Return the operation with some meta-parameters changed, checked as :func:`op` does."""
        return op(self.kind, **{**dict(self.parameters), **changes})


def op(kind: str, /, **parameters: Value) -> Operation:
    """Make an operation, meta-parameters that are not given taking their defaults.

    Raises:
        TopologyError: an unknown kind or meta-parameter, or a value against its rule.
    """
    if kind not in KINDS:
        raise TopologyError(str(unknown("operation", kind, KINDS)))
    rules = KINDS[kind].parameters
    for name in parameters:
        if name not in rules:
            raise TopologyError(str(unknown(f"meta-parameter of {kind}", name, rules)))
    values = {name: parameters.get(name, rule.default) for name, rule in rules.items()}
    for name, value in values.items():
        if isinstance(rules[name].default, float) and isinstance(value, int) and not isinstance(value, bool):
            values[name] = _real(value)  # 0 and 0.0 are one value: one digest
        if value == REQUIRED or not rules[name].allows(value):
            raise TopologyError(f"{kind}.{name} must be {rules[name].rule}, got {_shown(value)}")
    return Operation(kind, tuple(sorted(values.items())))


def _real(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return value  # no rule of a float allows one so large


def _shown(value: Value) -> str:
    large = isinstance(value, int) and value.bit_length() > _BITS
    return f"a whole number of {int(value or 0).bit_length()} bits" if large else repr(value)
