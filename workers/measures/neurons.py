"""Neurons that are nearly redundant: near-constant, near-silent, or near-duplicates of another one in their layer.

Each can be replaced by a constant, or by a constant plus a multiple of the other (its least-squares regression), which
what reads the layer takes over; so the function stays nearly as it was.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from detol.graph.prune import depthwise, prunable
from detol.workers.measures.probe import Probe

MOST = 0.7
"""At most this share of a layer's units is offered for removal at once."""
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
"""Shares of the offered removals after which the held-out loss is measured."""
POSITIONS = 65_536
"""At most so many samples and positions are taken into the statistics of a convolution."""


@dataclass(frozen=True, slots=True)
class _Statistics:
    """Mean (C,) and covariance (C, C) of a layer's units over samples (and positions), float64."""

    mean: Tensor
    covariance: Tensor


@dataclass(frozen=True, slots=True)
class _Removal:
    """A unit that ``constant`` + ``factor`` * the unit ``stands`` replaces (``stands`` -1: the constant alone).

    ``parts``: (node, unit, constant); several where a sum ties units of several nodes, which go together.
    """

    parts: tuple[tuple[str, int, float], ...]
    stands: int
    factor: float
    harm: float

    def rows(self) -> list[list[Any]]:
        return [[node, unit, self.stands, _round(self.factor), _round(constant)] for node, unit, constant in self.parts]


def neurons(probe: Probe) -> dict[str, Any]:
    """Return removals in the order in which to make them, and the held-out loss after some counts of them.

    ``loss``: mean loss over held samples; ``plain``: of a network that only knows the class shares. ``removals``:
    [node, unit, stands, factor, constant]. ``ladder``: [count, loss] after the first ``count`` removals, before any
    training. The order is by harm for each parameter saved; harm is the mean over samples of the squared change of the
    outputs, to first order (outputs' Jacobian by random signs, Hutchinson 1990). Units that a sum ties stand one after
    the other, each replaced by its constant.
    """
    found = probe.units
    apart: set[int] = set()
    for name, operation in found.operations.items():  # a depthwise convolution has nothing that could take a unit over
        apart |= set(map(int, found.enters[name])) if depthwise(operation) else set()
    names = [
        name
        for name in prunable(found)
        if name in probe.modules and len(found.made[name]) > 1 and apart.isdisjoint(map(int, found.made[name]))
    ]
    whole = probe.held_loss()
    removals = _chosen(_offers(probe, names), _saved(probe, names), {n: len(found.made[n]) for n in names})
    ladder = []
    for count in sorted({max(1, round(share * len(removals))) for share in SHARES}) if removals else ():
        with probe.changed(_replaced(removals[:count], probe.data.device)):
            ladder.append([sum(len(removal.parts) for removal in removals[:count]), _round(probe.held_loss())])
    return {
        "loss": _round(whole),
        "plain": _round(probe.plain_loss),
        "removals": [row for removal in removals for row in removal.rows()],
        "ladder": ladder,
    }


def _offers(probe: Probe, names: Sequence[str]) -> list[_Removal]:
    """Return what may replace each unit: constants, or its nearest relative where no other node shares it."""
    statistics = _statistics(probe, names)
    twins = {name: _twins(statistics[name]) for name in names}
    members: dict[int, list[tuple[str, int, float]]] = {}
    for name in probe.units.made:
        for place, unit in enumerate(map(int, probe.units.made[name])):
            constant = float(statistics[name].mean[place]) if name in statistics else math.nan
            members.setdefault(unit, []).append((name, place, constant))
    # All that are tied have to be nodes that can lose them.
    whole = {unit: parts for unit, parts in members.items() if all(name in statistics for name, _, _ in parts)}
    numbers = {unit: index for index, unit in enumerate(whole)}
    constants, merges = _harm(probe, names, statistics, twins, numbers)
    offers = [_Removal(tuple(parts), -1, 0.0, float(constants[numbers[unit]])) for unit, parts in whole.items()]
    for name in names:
        mean, (twin, slope) = statistics[name].mean, twins[name]
        intercept = mean - slope * mean[twin]
        offers += [
            _Removal(
                ((name, place, float(intercept[place])),),
                int(twin[place]),
                float(slope[place]),
                float(merges[name][place]),
            )
            for place, unit in enumerate(map(int, probe.units.made[name]))
            if len(members[unit]) == 1
        ]
    return offers


@torch.inference_mode()
def _statistics(probe: Probe, names: Sequence[str]) -> dict[str, _Statistics]:
    sums: dict[str, tuple[int, Tensor, Tensor]] = {}
    for x, _ in probe.seen() if names else ():
        with probe.outputs(names) as left:
            probe.model(x)
        for name in names:
            rows = _rows(left[name], probe.samples)
            count, total, gram = sums.get(
                name, (0, rows.new_zeros(rows.shape[1]), rows.new_zeros((rows.shape[1],) * 2))
            )
            sums[name] = (count + len(rows), total + rows.sum(0), gram + rows.T @ rows)
    found = {}
    for name, (count, total, gram) in sums.items():
        mean = total / count
        found[name] = _Statistics(mean, gram / count - torch.outer(mean, mean))
    return found


def _rows(value: Tensor, samples: int) -> Tensor:
    """Return (rows, C) float64 of (B, C, ...): every position, or evenly spaced ones where there are too many."""
    rows = _positions(value).transpose(1, 2)
    stride = max(1, rows.shape[1] * samples // POSITIONS)
    return rows[:, ::stride].reshape(-1, value.shape[1]).double()


def _positions(value: Tensor) -> Tensor:
    """Return (B, C, positions) of (B, C, ...)."""
    return value.reshape(*value.shape[:2], -1)


def _twins(found: _Statistics) -> tuple[Tensor, Tensor]:
    """Return for each unit the one it correlates with most, and the slope of its regression on that one."""
    variance = found.covariance.diagonal().clamp_min(0)
    spread = variance.clamp_min(1e-24).sqrt()
    correlation = (found.covariance / torch.outer(spread, spread)).abs()
    correlation[:, variance <= 1e-12] = -1  # a constant stands for nothing
    correlation.fill_diagonal_(-2)
    twin = correlation.argmax(1)
    rows = torch.arange(len(twin), device=twin.device)
    slope = found.covariance[rows, twin] / variance[twin].clamp_min(1e-12)
    return twin, slope


def _harm(
    probe: Probe,
    names: Sequence[str],
    statistics: dict[str, _Statistics],
    twins: dict[str, tuple[Tensor, Tensor]],
    numbers: dict[int, int],
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the harm of replacing by constants (of each unit, at its number), and by the regression (by node)."""
    device = probe.data.device
    # What has no number is added up in one place more, which nobody reads.
    index = {
        name: torch.tensor([numbers.get(int(unit), len(numbers)) for unit in probe.units.made[name]], device=device)
        for name in names
    }
    constants = torch.zeros(len(numbers) + 1, dtype=torch.float64, device=device)
    merges = {name: torch.zeros_like(found.mean) for name, found in statistics.items()}
    signs = torch.Generator(device).manual_seed(0)
    for x, _ in probe.seen() if names else ():
        with probe.outputs(names) as left:
            output = probe.model(x)
        sign = torch.randint(0, 2, output.shape, generator=signs, device=device).to(output.dtype) * 2 - 1
        if output.shape[1] > 1:
            sign = sign - sign.mean(1, keepdim=True)  # what all logits share does not matter
        slopes = torch.autograd.grad((output * sign).sum(), [left[name] for name in names])
        tied = constants.new_zeros((len(x), len(constants)))
        for name, slope in zip(names, slopes, strict=True):
            value, slope = _positions(left[name].detach()).double(), _positions(slope).double()
            twin, factor = twins[name]
            centred = value - statistics[name].mean[:, None]
            rest = centred - factor[:, None] * centred[:, twin]
            tied.index_add_(1, index[name], (centred * slope).sum(2))
            merges[name] += (rest * slope).sum(2).square().sum(0) / probe.samples
        constants += tied.square().sum(0) / probe.samples
    return constants, merges


def _saved(probe: Probe, names: Sequence[str]) -> dict[str, float]:
    """Return by node how many parameters one unit takes: its own and those that read it."""
    sizes = dict(probe.model.named_parameters())
    saved = dict.fromkeys(names, 0.0)
    for axis in probe.units.axes:
        if axis.parameter in sizes:
            parameter = sizes[axis.parameter]
            for name in names:
                positions = int((axis.units == probe.units.made[name][0]).sum())
                saved[name] += positions * parameter.numel() / parameter.shape[axis.axis]
    return saved


def _chosen(offers: list[_Removal], saved: dict[str, float], widths: dict[str, int]) -> list[_Removal]:
    """Choose greedily, least harm first; who stands for another stays, and a layer keeps 1 - ``MOST`` of its units."""
    order = sorted(offers, key=lambda r: (r.harm / max(saved[r.parts[0][0]], 1.0), r.parts, r.stands))
    gone: dict[str, set[int]] = {name: set() for name in widths}
    needed: dict[str, set[int]] = {name: set() for name in widths}
    chosen = []
    for removal in order:
        more = Counter(node for node, _, _ in removal.parts)
        full = any(len(gone[node]) + count > MOST * widths[node] for node, count in more.items())
        taken = any(unit in gone[node] or unit in needed[node] for node, unit, _ in removal.parts)
        if full or taken or removal.stands in gone[removal.parts[0][0]]:
            continue
        for node, unit, _ in removal.parts:
            gone[node].add(unit)
        if removal.stands >= 0:
            needed[removal.parts[0][0]].add(removal.stands)
        chosen.append(removal)
    return chosen


def _replaced(removals: Sequence[_Removal], device: torch.device) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Return what makes the removals in the outputs of their nodes."""
    by_node: dict[str, list[tuple[int, int, float, float]]] = {}
    for removal in removals:
        for node, unit, constant in removal.parts:
            by_node.setdefault(node, []).append((unit, max(removal.stands, 0), removal.factor, constant))

    def change(several: Sequence[tuple[int, int, float, float]]) -> Callable[[Tensor, Tensor], Tensor]:
        gone = torch.tensor([unit for unit, _, _, _ in several], device=device)
        stands = torch.tensor([other for _, other, _, _ in several], device=device)
        factor = torch.tensor([value for _, _, value, _ in several], device=device)
        constant = torch.tensor([value for _, _, _, value in several], device=device)

        def replace(entered: Tensor, left: Tensor) -> Tensor:  # noqa: ARG001  the signature of changes
            shape = (1, -1) + (1,) * (left.ndim - 2)
            result = left.clone()
            result[:, gone] = (constant.view(shape) + factor.view(shape) * left[:, stands]).to(left.dtype)
            return result

        return replace

    return {name: change(several) for name, several in by_node.items()}


def _round(value: float) -> float:
    return float(f"{value:.6g}")
