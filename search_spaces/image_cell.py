"""``image_cell``: a cell of up to four operations, used in every stage, and the widths and depths of the stages.

Cardinality: 13,617,214,585,920 = 86,835,620 cells (node i: 10 operations x i sources x i + 1 nodes to add; 3 joins
where there are 2 to 4 nodes) x 13,068 sets of stages (12 + 4 x 12 x (16 + 16^2): 6 widths x 2 depths of the first, 8
widths x 2 depths of the others, 4 kinds of reduction) x 2 stem strides x 2 stem kernels x 3 rates of dropout.
Source: the cell-based spaces of Zoph et al. 2018, arXiv 1707.07012, and Liu et al. 2019, arXiv 1806.09055, with the
stage widths and depths of Radosavovic et al. 2020, arXiv 2003.13678; operations ordered as in He et al. 2016, arXiv
1603.05027 (activation, convolution, norm). Cells that do nothing leave a plain chain of wide convolutions and pooling
(LeCun et al. 1998).
"""

from collections.abc import Iterator
from functools import lru_cache

from detol.graph.digest import digest
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.reading import NOTHING, inner, steps_of
from detol.spaces.space import DecisionSpace

NODES = 4
STAGES = 3
OPERATIONS: dict[str, Operation] = {
    "conv1": op("conv", kernel=1, order="pre"),
    "conv3": op("conv", kernel=3, order="pre"),
    "conv5": op("conv", kernel=5, order="pre"),
    "sepconv3": op("sepconv", kernel=3, order="pre"),
    "sepconv5": op("sepconv", kernel=5, order="pre"),
    "mbconv3": op("mbconv", kernel=3, expand=2),
    "max_pool": op("pool", mode="max", kernel=3),
    "avg_pool": op("pool", mode="avg", kernel=3),
    "squeeze_excite": op("squeeze_excite"),
    "skip": op("identity"),
}
WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96)
FIRST_WIDTHS = WIDTHS[:6]
"""Of the first stage, where the images are largest and a channel costs most."""

REDUCTIONS = ("conv", "pool", "residual", "wide")
STEM_KERNELS = (3, 5)
CELL = ("nodes", "join", *(f"{part}_{node}" for node in range(1, NODES + 1) for part in ("op", "from", "add")))
"""The choices of the cell; all others belong to the stages."""


@lru_cache(maxsize=4096)
def cell(decisions: Decisions, width: int) -> Topology:
    """Return the cell of the choices in ``CELL``; ``width`` is that of its stage and matters for ``concat`` alone.

    Node 0 is the cell's input. Node i is operation i on node ``from_i``, with node ``add_i`` added to its result. The
    output is the last node, or the sum of all nodes that no other node uses, or their concatenation brought back to
    the width of the stage by a 1x1 convolution.
    """
    count = int(decisions["nodes"])
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    value = ["input"]
    used: set[int] = set()
    for number in range(1, count + 1):
        source, added = int(decisions.get(f"from_{number}", 0)), int(decisions[f"add_{number}"])
        name = f"op_{number}"
        nodes[name] = OPERATIONS[str(decisions[name])]
        edges.append((value[source], name))
        used |= {source, added}
        if added != NOTHING:
            joined = f"sum_{number}"
            nodes[joined] = op("add")
            edges += [(name, joined), (value[added], joined)]
            name = joined
        value.append(name)
    loose = [value[number] for number in range(1, count + 1) if number not in used]
    if decisions.get("join", "last") == "last":
        edges.append((value[-1], "output"))
    elif decisions["join"] == "sum" or len(loose) == 1:
        edges += [(name, "output") for name in loose]
    else:
        nodes["concat"], nodes["mix"] = op("concat"), op("conv", kernel=1, channels=width, order="pre")
        edges += [*((name, "concat") for name in loose), ("concat", "mix"), ("mix", "output")]
    nodes["output"] = op("output")
    return Topology(nodes, edges)


@lru_cache(maxsize=256)
def reduction(kind: str, width: int) -> Topology:
    """Return what stands between two stages: it halves the axes and changes the channels to ``width``."""
    convolution = op("conv", kernel=3, channels=width, stride=2, order="pre")
    if kind == "conv":
        return chain(convolution)
    mix = op("conv", kernel=1, channels=width, activation="none")
    if kind in ("pool", "wide"):
        after = mix if kind == "pool" else op("conv", kernel=5, channels=width, order="pre")
        return chain(op("pool", mode="max", kernel=3, stride=2), after)
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "conv_1": convolution,
        "conv_2": op("conv", kernel=3, channels=width, order="pre"),
        "pool": op("pool", mode="avg", kernel=3, stride=2),
        "mix": mix,
        "output": op("output"),
    }
    edges = [("input", "conv_1"), ("conv_1", "conv_2"), ("conv_2", "output")]
    return Topology(nodes, [*edges, ("input", "pool"), ("pool", "mix"), ("mix", "output")])


def build(decisions: Decisions) -> Topology:
    """Return stem, stages of cells with a reduction before each but the first, norm, ReLU and dropout."""
    own = Decisions({name: option for name, option in decisions.items() if name in CELL})
    parts: list[Operation | Topology] = []
    for stage in range(1, int(decisions["stages"]) + 1):
        width = int(decisions[f"width_{stage}"])
        if stage == 1:
            kernel, stride = int(decisions["stem_kernel"]), decisions["stem_stride"]
            parts.append(op("conv", kernel=kernel, channels=width, stride=stride, activation="none"))
        else:
            parts.append(reduction(str(decisions["reduction"]), width))
        parts += [cell(own, width if own.get("join") == "concat" else 0)] * int(decisions[f"cells_{stage}"])
    return chain(*parts, op("norm"), op("activation"), op("dropout", rate=decisions["dropout"]))


def read(topology: Topology) -> Iterator[dict[str, Option]]:
    """Yield the decisions that the structure of a network can come from."""
    taken: dict[str, Option] = {"dropout": 0.0}
    kinds = {digest(reduction(kind, width)): (kind, width) for kind in REDUCTIONS for width in WIDTHS}
    counts: list[int] = []
    cells = [chain()]
    for _, node in inner(topology):
        if isinstance(node, Topology) and (found := kinds.get(digest(node))):
            counts.append(0)
            taken["reduction"], taken[f"width_{len(counts)}"] = found
        elif isinstance(node, Topology) and counts:
            counts[-1] += 1
            cells.append(node)
        elif isinstance(node, Operation) and node.kind == "conv":
            counts.append(0)
            taken |= {"stem_stride": node["stride"] or 1, "stem_kernel": node["kernel"] or 0}
            taken["width_1"] = node["channels"] or 0
        elif isinstance(node, Operation) and node.kind == "dropout":
            taken["dropout"] = node["rate"] or 0.0
    taken["stages"] = len(counts)
    # Cells that only pass their input on leave no trace: one in each stage stands for them.
    taken |= {f"cells_{stage}": count or 1 for stage, count in enumerate(counts, start=1)}
    for steps, join in steps_of(cells[-1], {node: label for label, node in OPERATIONS.items()}, "skip", NODES):
        own: dict[str, Option] = {"nodes": len(steps.labels)}
        for number, parts in enumerate(zip(steps.labels, steps.sources, steps.added, strict=True), start=1):
            own |= dict(zip((f"op_{number}", f"from_{number}", f"add_{number}"), parts, strict=True))
        del own["from_1"]
        yield {**taken, **own, **({"join": join} if len(steps.labels) > 1 else {})}


def _choices() -> list[Choice]:
    choices = [
        Choice("stem_stride", (1, 2), ordered=True),
        Choice("stem_kernel", STEM_KERNELS, ordered=True, before=3),
        Choice("stages", tuple(range(1, STAGES + 1)), ordered=True),
        Choice("reduction", REDUCTIONS, when={"stages": tuple(range(2, STAGES + 1))}),
    ]
    for stage in range(1, STAGES + 1):
        when = {"stages": tuple(range(stage, STAGES + 1))} if stage > 1 else {}
        choices.append(Choice(f"width_{stage}", WIDTHS if stage > 1 else FIRST_WIDTHS, when=when, ordered=True))
        choices.append(Choice(f"cells_{stage}", (1, 2), when=when, ordered=True))
    choices.append(Choice("dropout", (0.0, 0.1, 0.25), ordered=True))
    choices.append(Choice("nodes", tuple(range(1, NODES + 1)), ordered=True))
    for node in range(1, NODES + 1):
        when = {"nodes": tuple(range(node, NODES + 1))} if node > 1 else {}
        choices.append(Choice(f"op_{node}", tuple(OPERATIONS), when=when))
        if node > 1:
            choices.append(Choice(f"from_{node}", tuple(range(node)), when=when))
        choices.append(Choice(f"add_{node}", (NOTHING, *range(node)), when=when))
    choices.append(Choice("join", ("last", "sum", "concat"), when={"nodes": tuple(range(2, NODES + 1))}))
    return choices


_TWO_CONVOLUTIONS: dict[str, Option] = {
    "nodes": 2,
    "op_1": "conv3",
    "add_1": NOTHING,
    "op_2": "conv3",
    "from_2": 1,
    "join": "last",
}
_STAGES: dict[str, Option] = {
    "stem_stride": 1,
    "stem_kernel": 3,
    "stages": 2,
    "width_1": 16,
    "cells_1": 1,
    "width_2": 32,
    "cells_2": 1,
    "dropout": 0.0,
}

SPACE = DecisionSpace(
    "image_cell",
    _choices(),
    build,
    references={
        # What little time allows: a strided stem, and one convolution with a skip in each of three stages.
        "light": {
            **_STAGES,
            "stem_stride": 2,
            "stages": 3,
            "width_3": 48,
            "cells_3": 1,
            "reduction": "residual",
            "nodes": 1,
            "op_1": "conv3",
            "add_1": 0,
        },
        # Wide convolutions with pooling between them, and cells that do nothing (LeCun et al. 1998).
        "lenet": {
            **_STAGES,
            "stem_kernel": 5,
            "stages": 3,
            "width_1": 24,
            "width_2": 48,
            "width_3": 48,
            "cells_3": 1,
            "reduction": "wide",
            "nodes": 1,
            "op_1": "skip",
            "add_1": NOTHING,
        },
        # The basic block of He et al. 2016, with and without its skip.
        "residual": {**_STAGES, **_TWO_CONVOLUTIONS, "reduction": "residual", "add_2": 0},
        "plain": {**_STAGES, **_TWO_CONVOLUTIONS, "reduction": "conv", "add_2": NOTHING},
        # Twice as wide and a stage deeper: what is better with a GPU, or with time.
        "wide": {
            **_STAGES,
            **_TWO_CONVOLUTIONS,
            "stages": 3,
            "width_1": 32,
            "width_2": 64,
            "width_3": 96,
            "cells_3": 1,
            "reduction": "residual",
            "add_2": 0,
        },
    },
    description="a cell of up to four operations, and the widths and depths of its stages",
    kind="image",
    source="Zoph et al. 2018, arXiv 1707.07012; Liu et al. 2019, 1806.09055; Radosavovic et al. 2020, 2003.13678",
    read=read,
)
