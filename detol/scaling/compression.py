"""How many times fewer bytes a rank sends under each way to exchange gradients than under a plain ring in 32 bit."""

from detol.graph.cost import FLOAT
from detol.scaling.work import Work
from detol.search.exchange import parse

INDEX = 4
"""Bytes that say which value is sent, beside the value."""


def factor(communication: str, work: Work, width: int) -> float:
    """Return the factor for a recipe's ``communication``, e.g. ``plain``, ``bf16``, ``powersgd:2``, ``topk:0.01``.

    ``topk`` gathers the kept values of all ranks: each sends (n - 1) times its share of them, value and index.
    ``powersgd`` sends two factors of each weight in place of it (Vogels et al. 2019, arXiv 1905.13727, algorithm 1),
    ``local_sgd`` nothing but every so many steps.

    Raises:
        UsageError: an unknown name, or a value against its rule.
    """
    exchange = parse(communication)
    if exchange.name in ("fp16", "bf16"):
        return 2.0
    if exchange.name == "local_sgd":
        return exchange.value
    if exchange.name == "topk" and width > 1:
        plain = 2 * (width - 1) / width * FLOAT
        return plain / ((width - 1) * exchange.value * (FLOAT + INDEX))
    if exchange.name == "powersgd":
        return work.params / max(1.0, sum(_factors(work, exchange.value)))
    return 1.0


def _factors(work: Work, rank: float) -> list[float]:
    """Return the numbers that are sent for each layer: r (rows + columns) of its matrix where that is fewer."""
    found = []
    for layer in work.layers:
        rows = layer.product.outputs * layer.product.groups if layer.product else 0
        columns = layer.product.inner if layer.product else 0
        found.append(min(float(layer.params), rank * (rows + columns)) if rows else float(layer.params))
    return found
