"""``image_dag``: up to eight layers in a row, each free to see the outputs of any earlier ones.

Cardinality: 63,420,067,780,633,368,000 = 2 stem strides x 5 widths x 2 growths x 4 ways to halve the axes x 2 ways to
merge x (sum over depths d = 1 to 8 of 7^d operations and 2^(d (d + 1) / 2) sets of skips).
Source: the macro space of Pham et al. 2018 (ENAS), arXiv 1802.03268, section 2.3, with free widths and halvings.
"""

from collections.abc import Iterator

from detol.graph.edit import normalise
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.reading import inner
from detol.spaces.space import DecisionSpace

DEPTH = 8
OPERATIONS: dict[str, Operation] = {
    "conv3": op("conv", kernel=3),
    "conv5": op("conv", kernel=5),
    "sepconv3": op("sepconv", kernel=3),
    "sepconv5": op("sepconv", kernel=5),
    "mbconv3": op("mbconv", kernel=3, expand=2),
    "max_pool": op("pool", mode="max", kernel=3),
    "avg_pool": op("pool", mode="avg", kernel=3),
}
WIDTHS = (8, 12, 16, 24, 32)
HALVINGS = {"none": (), "early": (0.0, 0.3), "even": (0.34, 0.67), "once": (0.5,)}
"""Where the axes are halved, as shares of the depth."""


def halved(kind: str, depth: int) -> set[int]:
    """Return the layers (from 1) with a stride of 2, e.g. ``even`` at depth 6: layers 3 and 5."""
    return {min(depth, 1 + int(share * depth)) for share in HALVINGS[kind]}


def skips(depth: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs (source, target) that a skip may join; 0 is the stem, ``depth`` + 1 the output."""
    for target in range(2, depth + 2):
        for source in range(target - 1):
            yield source, target


def skip_name(source: int, target: int, depth: int) -> str:
    """Return the name of the choice of one skip."""
    return f"skip_{source}_out" if target > depth else f"skip_{source}_{target}"


def build(decisions: Decisions) -> Topology:
    """Return stem -> layer 1 ... layer n -> output, each also fed by the layers that its skips come from.

    Channels grow by ``growth`` where the axes are halved. Several tensors that enter a layer are summed, or
    concatenated, after a projection where their sizes differ.
    """
    depth, width = int(decisions["depth"]), int(decisions["width"])
    strided = halved(str(decisions["halving"]), depth)
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "layer_0": op("conv", kernel=3, channels=width, stride=decisions["stem_stride"]),
    }
    edges = [("input", "layer_0")]
    for number in range(1, depth + 2):
        seen = [f"layer_{number - 1}"]
        seen += [
            f"layer_{source}"
            for source, target in skips(depth)
            if target == number and decisions[skip_name(source, target, depth)]
        ]
        layer = f"layer_{number}" if number <= depth else "output"
        if number > depth:
            nodes[layer] = op("output")
        else:
            operation = OPERATIONS[str(decisions[f"op_{number}"])].replace(stride=2 if number in strided else 1)
            if number in strided:
                width *= int(decisions["growth"])
            nodes[layer] = operation if operation.kind == "pool" else operation.replace(channels=width)
        if decisions.get("merge") == "concat" and len(seen) > 1:
            nodes[f"join_{number}"] = op("concat")
            edges += [(source, f"join_{number}") for source in seen]
            edges.append((f"join_{number}", layer))
        else:
            edges += [(source, layer) for source in seen]
    return Topology(nodes, edges)


def read(topology: Topology) -> Iterator[dict[str, Option]]:
    """Yield the decisions that the structure of a network can come from: a guess for each growth and halving."""
    form = normalise(topology)
    found = [(name, node) for name, node in inner(form) if isinstance(node, Operation)]
    if not found or found[0][1].kind != "conv":
        return
    place = {name: number for number, (name, _) in enumerate(found)} | {form.output: len(found)}
    depth = len(found) - 1
    labels = {operation: label for label, operation in OPERATIONS.items()}
    taken: dict[str, Option] = {"depth": depth, "merge": "sum"}
    taken |= {"stem_stride": found[0][1]["stride"] or 0, "width": found[0][1]["channels"] or 0}
    taken |= {skip_name(source, target, depth): False for source, target in skips(depth)}
    for name, target in place.items():
        entering = form.sources[name]
        if target and entering and entering[0] not in place:  # a concatenation
            taken["merge"] = "concat"
            entering = form.sources[entering[0]]
        for source in entering:
            if source in place and place[source] < target - 1:
                taken[skip_name(place[source], target, depth)] = True
    kinds = {operation.kind for operation in OPERATIONS.values()}
    for number, (_, node) in enumerate(found[1:], start=1):
        if node.kind not in kinds:
            return  # a network of another space
        bare = node.replace(stride=1) if node.kind == "pool" else node.replace(stride=1, channels=None)
        taken[f"op_{number}"] = labels.get(bare, "")
    yield from ({**taken, "growth": growth, "halving": halving} for growth in (1, 2) for halving in HALVINGS)


def _choices() -> list[Choice]:
    choices = [
        Choice("stem_stride", (1, 2), ordered=True),
        Choice("width", WIDTHS, ordered=True),
        Choice("growth", (1, 2), ordered=True),
        Choice("halving", tuple(HALVINGS)),
        Choice("depth", tuple(range(1, DEPTH + 1)), ordered=True),
        Choice("merge", ("sum", "concat")),
    ]
    for number in range(1, DEPTH + 1):
        deeper = {"depth": tuple(range(number, DEPTH + 1))}
        choices.append(Choice(f"op_{number}", tuple(OPERATIONS), when=deeper))
        choices += [Choice(f"skip_{source}_{number}", (False, True), when=deeper) for source in range(number - 1)]
    for source in range(DEPTH):
        choices.append(Choice(f"skip_{source}_out", (False, True), when={"depth": tuple(range(source + 1, DEPTH + 1))}))
    return choices


def reference(depth: int, *, residual: bool) -> dict[str, Option]:
    """Return the decisions of a chain of 3x3 convolutions, every second layer with a skip over it or none."""
    taken: dict[str, Option] = {
        "stem_stride": 1,
        "width": 16,
        "growth": 2,
        "halving": "even",
        "depth": depth,
        "merge": "sum",
    }
    taken |= {f"op_{number}": "conv3" for number in range(1, depth + 1)}
    for source, target in skips(depth):
        # h3 = f(h2 + h0), h5 = f(h4 + h2 + h0) ...: the sums of a residual network, written out (He et al. 2016).
        taken[skip_name(source, target, depth)] = residual and source % 2 == 0 and target % 2 == 1
    return taken


SPACE = DecisionSpace(
    "image_dag",
    _choices(),
    build,
    references={"residual": reference(4, residual=True), "plain": reference(4, residual=False)},
    description="up to eight layers in a row, each free to see the outputs of any earlier ones",
    kind="image",
    source="Pham et al. 2018, arXiv 1802.03268",
    read=read,
)
