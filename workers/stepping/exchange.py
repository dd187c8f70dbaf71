"""The exchange of gradients in a recorded step, beside the backward pass: all-reduces of memory that stays in place."""

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from detol.scaling.work import BUCKET, FIRST_BUCKET


@dataclass(slots=True)
class _Bucket:
    """Gradients that are sent together, and how many additions to them are still to come in this step."""

    parameters: list[nn.Parameter]
    flat: Tensor
    views: list[Tensor]
    left: int = 0


class Exchange:
    """Sums the gradients of a network over its ranks, bucket by bucket, each as soon as it is filled.

    As torch's DistributedDataParallel does (Li et al. 2020, arXiv 2006.15704, section 3.2): the last layers' gradients
    first, in a small bucket, and all buckets in one order on all ranks; but from memory that a recorded step can use.

    Args:
        called: the network of this rank, whose group is used.
        bucket: bytes of a bucket that is full, > 0.
        first: likewise of the first one.
    """

    def __init__(self, called: DistributedDataParallel, *, bucket: int = BUCKET, first: int = FIRST_BUCKET) -> None:
        self._group = called.process_group
        self._buckets = _buckets([p for p in called.module.parameters() if p.requires_grad], bucket, first)
        self._place = {p: index for index, each in enumerate(self._buckets) for p in each.parameters}
        self._open = False
        self._sent: list[Any] = []
        told = weakref.ref(self)  # the network outlives its step, and would keep this memory alive

        def filled(parameter: nn.Parameter) -> None:
            exchange = told()
            if exchange is not None and exchange._open:
                exchange._filled(parameter)

        handles = [p.register_post_accumulate_grad_hook(filled) for p in self._place]  # type: ignore[no-untyped-call]
        weakref.finalize(self, _removed, handles)

    def buckets(self, weights: Iterable[Tensor]) -> list[list[Tensor]]:
        """Return weights by the bucket that their gradients are sent in; one without a gradient goes with the first."""
        found: list[list[Tensor]] = [[] for _ in self._buckets]
        for weight in weights:
            found[self._place.get(cast("nn.Parameter", weight), 0)].append(weight)
        return [each for each in found if each]

    @contextlib.contextmanager
    def beside(self, parts: int) -> Iterator[None]:
        """Exchange what a backward pass inside the context fills; at its end the gradients are the sums.

        Args:
            parts: how many times each gradient is added to before it is whole, >= 1.

        Raises:
            RuntimeError: a parameter without a gradient: then a bucket is never full.
        """
        self._open, self._sent = True, []
        for each in self._buckets:
            each.left = parts * len(each.parameters)
        try:
            yield
            if len(self._sent) < len(self._buckets):
                raise RuntimeError("a parameter has no gradient")
            for each, sent in zip(self._buckets, self._sent, strict=True):
                sent.wait()
                for parameter, view in zip(each.parameters, each.views, strict=True):
                    parameter.grad = view
        finally:
            self._open, self._sent = False, []

    def _filled(self, parameter: nn.Parameter) -> None:
        """Take note of an addition to a gradient; send the buckets that are full now and whose turn it is."""
        self._buckets[self._place[parameter]].left -= 1
        while len(self._sent) < len(self._buckets) and not self._buckets[len(self._sent)].left:
            each = self._buckets[len(self._sent)]
            torch._foreach_copy_(each.views, [p.grad for p in each.parameters if p.grad is not None])
            self._sent.append(dist.all_reduce(each.flat, group=self._group, async_op=True))


def _removed(handles: Iterable[Any]) -> None:
    for handle in handles:
        handle.remove()


def _buckets(parameters: list[nn.Parameter], bucket: int, first: int) -> list[_Bucket]:
    """Return the buckets, the last parameters' first; none is cut, so that the last one of a bucket may overfill it."""
    found: list[list[nn.Parameter]] = []
    size, limit = 0, first
    for parameter in reversed(parameters):
        if not found or size >= limit:
            limit = bucket if found else first
            found.append([])
            size = 0
        found[-1].append(parameter)
        size += parameter.numel() * parameter.element_size()
    return [_bucket(each) for each in found]


def _bucket(parameters: list[nn.Parameter]) -> _Bucket:
    sizes = [p.numel() for p in parameters]
    flat = torch.zeros(sum(sizes), device=parameters[0].device)
    parts = flat.split(sizes)  # type: ignore[no-untyped-call]
    # In the layout of the parameters, which is that of their gradients.
    views = [part.as_strided(p.shape, p.stride()) for p, part in zip(parameters, parts, strict=True)]
    return _Bucket(parameters, flat, views)
