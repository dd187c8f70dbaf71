"""Blocks: the chains of activation, convolution or linear layer, and norm that networks are made of, as functions.

Blocks of equal layers, shapes and formats are one function, whatever candidate they stand in: what is compiled for one
serves all.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Spec: TypeAlias = tuple[Any, ...]
"""One layer: its kind and the numbers that it is called with."""
Laid: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A shape and its strides."""
Function: TypeAlias = Callable[..., Tensor]
"""From (x, *tensors) to the block's output; the running statistics among the tensors are updated."""

_ACTIVATIONS: Mapping[type[nn.Module], str] = {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu", nn.Tanh: "tanh"}
_CONVOLUTIONS: Mapping[type[nn.Module], str] = {nn.Conv1d: "conv1d", nn.Conv2d: "conv2d", nn.Conv3d: "conv3d"}
_SIMPLE: Mapping[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}
_LAYERS: Mapping[str, Callable[..., Tensor]] = {
    "linear": F.linear,
    "conv1d": F.conv1d,
    "conv2d": F.conv2d,
    "conv3d": F.conv3d,
}
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True, slots=True)
class Key:
    """What two blocks must have in common to be one function.

    Args:
        specs: the layers.
        shapes: of the tensors, each with its strides.
        sample: shape of what enters, without the batch axis, with the strides of all its axes.
        entering: format of what enters.
        dtype: format that is computed in.
        learns: whether a gradient is wanted for what enters.
    """

    specs: tuple[Spec, ...]
    shapes: tuple[Laid, ...]
    sample: Laid
    entering: torch.dtype
    dtype: torch.dtype
    learns: bool


class Block:
    """A module that is a chain of known layers.

    Attributes:
        first: the activation that it begins with, which blocks that read the same tensor have in common; or empty.
        specs: its further layers, one after the other.
        tensors: parameters and buffers in the order of the layers.
        weights: those of them that are multiplied.
        counters: the counters of batches of its norms.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        specs: list[Spec] = []
        self.tensors: list[Tensor] = []
        self.weights: list[Tensor] = []
        self.counters: list[Tensor] = []
        for layer in layers:
            specs.append(_spec(layer))
            if isinstance(layer, _NORMS):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                assert layer.num_batches_tracked is not None
                self.tensors += [layer.weight, layer.bias, layer.running_mean, layer.running_var]
                self.counters.append(layer.num_batches_tracked)
            elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear):
                multiplied = [layer.weight] if layer.bias is None else [layer.weight, layer.bias]
                self.tensors += multiplied
                self.weights += multiplied
        self.first = str(specs.pop(0)[0]) if type(layers[0]) in _ACTIVATIONS else ""
        self.specs = tuple(specs)

    def key(self, x: Tensor, dtype: torch.dtype) -> Key:
        """Return which function computes it for such an input."""
        shapes = tuple((tuple(tensor.shape), tensor.stride()) for tensor in self.tensors)
        return Key(self.specs, shapes, (tuple(x.shape[1:]), x.stride()), x.dtype, dtype, x.requires_grad)


def _spec(layer: nn.Module) -> Spec:
    if type(layer) in _ACTIVATIONS:
        return (_ACTIVATIONS[type(layer)],)
    if isinstance(layer, nn.Linear):
        return ("linear", layer.bias is not None)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        numbers = (layer.stride, layer.padding, layer.dilation, layer.groups)
        return (_CONVOLUTIONS[type(layer)], layer.bias is not None, *numbers)
    assert isinstance(layer, _NORMS)
    return ("norm", layer.momentum, layer.eps)


class Shared:
    """Activations that are computed once for all blocks that read the same tensor, in one forward pass."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], tuple[weakref.ref[Tensor], Tensor]] = {}

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """Return an activation of a tensor; no name: the tensor."""
        if not name:
            return x
        reference, made = self._made.get((id(x), name), (None, x))
        if reference is None or reference() is not x:  # another tensor may have come to the place of one that is gone
            made = _SIMPLE[name](x)
            self._made[id(x), name] = (weakref.ref(x), made)
        return made

    def clear(self) -> None:
        """Forget them: the pass is over."""
        self._made.clear()


def function(specs: tuple[Spec, ...], dtype: torch.dtype) -> Function:
    """Return the function of a chain of layers in training, computed in a format."""

    def block(x: Tensor, *tensors: Tensor) -> Tensor:
        place = 0
        x = x.to(dtype)
        for spec in specs:
            kind = spec[0]
            if kind == "norm":
                weight, bias, mean, variance = tensors[place : place + 4]
                place += 4
                x = F.batch_norm(x, mean, variance, weight, bias, True, spec[1], spec[2])
            elif kind in _SIMPLE:
                x = _SIMPLE[kind](x)
            else:
                weight, place = tensors[place], place + 1
                shift = None
                if spec[1]:
                    shift, place = tensors[place], place + 1
                x = _LAYERS[kind](x, weight, shift, *spec[2:])
        return x

    return block


def blocks_of(model: nn.Module) -> dict[nn.Module, Block]:
    """Return the largest modules of a network that are chains of known layers with a weight among them."""
    found: dict[nn.Module, Block] = {}
    _search(model, found)
    return found


def _search(module: nn.Module, found: dict[nn.Module, Block]) -> None:
    layers = _chain(module)
    if layers is not None and any(not isinstance(layer, tuple(_ACTIVATIONS)) for layer in layers):
        found[module] = Block(layers)
        return
    for child in module.children():
        _search(child, found)


def _chain(module: nn.Module) -> list[nn.Module] | None:
    """Return the layers of a module in order, or ``None`` when it is anything else than a chain of known ones."""
    if type(module) is nn.Sequential:
        parts = [_chain(child) for child in module.children()]
        known = [part for part in parts if part is not None]
        return [layer for part in known for layer in part] if len(known) == len(parts) and parts else None
    if type(module) in _ACTIVATIONS or type(module) is nn.Linear:
        return [module]
    if type(module) in _CONVOLUTIONS:
        plain = isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and module.padding_mode == "zeros"
        return [module] if plain else None
    if isinstance(module, _NORMS):
        usual = module.momentum is not None and module.affine and module.track_running_stats
        return [module] if usual and type(module) in _NORMS else None
    return None


@contextlib.contextmanager
def replaced(forwards: Mapping[nn.Module, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Let modules compute by other functions inside the context."""
    for module, forward in forwards.items():
        module.__dict__["forward"] = forward
    try:
        yield
    finally:
        for module in forwards:
            module.__dict__.pop("forward", None)
