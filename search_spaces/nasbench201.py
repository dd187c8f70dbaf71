"""``nasbench201``: the cells of NAS-Bench-201, in the network they were trained in.

Cardinality: 5 operations on 6 edges = 15,625 cells, of which 5,425 differ as networks (one class of them, 341 cells,
joins the input to the output nowhere and cannot be built).
Source: Dong and Yang 2020, "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search",
arXiv 2001.00326, figure 1 and section 2.
"""

from functools import lru_cache

from detol.errors import SpaceError
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.search.records import Candidate
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.edges import cell_topology, edge_names, read_cells
from detol.spaces.space import DecisionSpace

EDGES = edge_names(4)
"""The edges in the order of the published tables: 0>1, 0>2, 1>2, 0>3, 1>3, 2>3."""

OPERATIONS: dict[str, Operation | None] = {
    "none": None,
    "skip_connect": op("identity"),
    "nor_conv_1x1": op("conv", kernel=1, order="pre"),
    "nor_conv_3x3": op("conv", kernel=3, order="pre"),
    "avg_pool_3x3": op("pool", mode="avg", kernel=3),
}
LABELS = tuple(OPERATIONS)
WIDTHS = (16, 32, 64)
CELLS = 5
"""Cells in each of the three stages."""


def _reduction(channels: int) -> Topology:
    """Return the residual block that halves the axes and doubles the channels (He et al. 2016, basic block)."""
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "conv_1": op("conv", kernel=3, channels=channels, stride=2, order="pre"),
        "conv_2": op("conv", kernel=3, channels=channels, order="pre"),
        "pool": op("pool", mode="avg", kernel=3, stride=2),
        "project": op("conv", kernel=1, channels=channels, activation="none", norm=False),
        "output": op("output"),
    }
    edges = [("input", "conv_1"), ("conv_1", "conv_2"), ("conv_2", "output")]
    return Topology(nodes, [*edges, ("input", "pool"), ("pool", "project"), ("project", "output")])


STEM = op("conv", kernel=3, channels=WIDTHS[0], activation="none")
REDUCTIONS = tuple(_reduction(channels) for channels in WIDTHS[1:])
END = (op("norm"), op("activation", fn="relu"))


@lru_cache(maxsize=4096)
def cell(decisions: Decisions) -> Topology:
    """Return the cell alone, as a topology."""
    return cell_topology(decisions, OPERATIONS)


def build(decisions: Decisions) -> Topology:
    """Return stem, 5 cells, reduction, 5 cells, reduction, 5 cells, norm and ReLU; the cell is one motif."""
    cells = [cell(decisions)] * CELLS
    return chain(STEM, *cells, REDUCTIONS[0], *cells, REDUCTIONS[1], *cells, *END)


def code(candidate: Candidate | Decisions) -> str:
    """Return six digits for the edges 0>1, 0>2, 1>2, 0>3, 1>3, 2>3.

    0 is none, 1 skip_connect, 2 nor_conv_1x1, 3 nor_conv_3x3, 4 avg_pool_3x3 (as in tables of the benchmark).

    Raises:
        SpaceError: decisions of another space.
    """
    taken = candidate.decisions if isinstance(candidate, Candidate) else candidate
    whole = SPACE.complete(taken)
    return "".join(str(LABELS.index(str(whole[edge]))) for edge in EDGES)


def decisions(code: str) -> Decisions:
    """Return the decisions of six digits; the inverse of :func:`code`.

    Raises:
        SpaceError: not six digits from 0 to 4.
    """
    if len(code) != len(EDGES) or not set(code) <= set("01234"):
        raise SpaceError(f"a NAS-Bench-201 code is {len(EDGES)} digits from 0 to 4, got {code!r}")
    return Decisions({edge: LABELS[int(digit)] for edge, digit in zip(EDGES, code, strict=True)})


def _coded(text: str) -> dict[str, Option]:
    return dict(decisions(text))


SPACE = DecisionSpace(
    "nasbench201",
    [Choice(edge, LABELS) for edge in EDGES],
    build,
    read=lambda topology: read_cells(topology, OPERATIONS),
    references={
        # Three convolutions in a row, with and without a skip around them.
        "residual": _coded("303103"),
        "plain": _coded("303003"),
    },
    description="cells with 5 operations on 6 edges, 15 of them in a residual network for 32x32 images",
    kind="image",
    source="Dong and Yang 2020, arXiv 2001.00326",
)
