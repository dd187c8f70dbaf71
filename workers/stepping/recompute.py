"""Activation checkpointing: what a node computes inside is thrown away, and computed again when gradients want it.

Chen et al. 2016, arXiv 1604.06174. Costs one more forward pass; the results are the same to the bit.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from detol.graph.build import Body


def recompute(network: nn.Module) -> int:
    """Let the nodes of a network (cells are one node each) keep only what enters them; return how many do.

    Nodes with dropout stay as they are: their draws could not be repeated.
    """
    if not isinstance(network, Body):
        return 0
    chosen = [node for node in network.nodes.values() if _worthwhile(node)]
    for node in chosen:
        norms = [module for module in node.modules() if isinstance(module, _BatchNorm)]
        node.__dict__["forward"] = partial(_again, node, node.forward, norms)
    return len(chosen)


def _worthwhile(node: nn.Module) -> bool:
    inner = [module for module in node.modules() if not list(module.children())]
    return len(inner) > 1 and not any(isinstance(module, nn.Dropout) for module in inner)


def _again(node: nn.Module, forward: Callable[[Tensor], Tensor], norms: Sequence[_BatchNorm], x: Tensor) -> Tensor:
    if not node.training:
        return forward(x)
    found: Tensor = checkpoint(
        forward,
        x,
        use_reentrant=False,
        preserve_rng_state=False,
        context_fn=lambda: (contextlib.nullcontext(), _still(norms)),
    )
    return found


@contextlib.contextmanager
def _still(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Leave the running statistics alone: they have seen this batch already."""
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, counter in before:
            norm.momentum, norm.num_batches_tracked = momentum, counter
