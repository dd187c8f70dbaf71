"""``tabular``: perceptrons with residual or dense skips, for vectors of features.

Cardinality: 9,882,096 = 4 activations x 2 (norm) x 3 rates of dropout x (7 widths of the one layer, or 3 kinds of skip
x 7 widths for each of 2 to 6 layers).
Source: Gorishniy et al. 2021, "Revisiting Deep Learning Models for Tabular Data", arXiv 2106.11959 (MLP and ResNet);
dense skips after Huang et al. 2017, arXiv 1608.06993.
"""

from collections.abc import Iterator

from detol.graph.ops import Operation, op
from detol.graph.topology import Topology
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.space import DecisionSpace

DEPTH = 6
WIDTHS = (16, 32, 64, 128, 192, 256, 384)
SKIPS = ("none", "residual", "dense")


def build(decisions: Decisions) -> Topology:
    """Return a chain of linear layers with the skips of its kind.

    ``residual``: the input of each layer but the first is added to its output. ``dense``: each layer but the first
    sees the outputs of all layers before it, concatenated, and so does the output.
    """
    depth, skip = int(decisions["depth"]), decisions.get("skip", "none")
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    seen: list[str] = []
    entry = "input"
    for number in range(1, depth + 1):
        layer = f"layer_{number}"
        nodes[layer] = op(
            "linear",
            features=decisions[f"width_{number}"],
            activation=decisions["activation"],
            norm=decisions["norm"],
            dropout=decisions["dropout"],
        )
        edges.append((entry, layer))
        seen.append(layer)
        after = f"join_{number}"
        if number == 1 or skip == "none":
            entry = layer
        elif skip == "residual":
            nodes[after] = op("add")
            edges += [(layer, after), (entry, after)]
            entry = after
        else:
            nodes[after] = op("concat")
            edges += [(name, after) for name in seen]
            entry = after
    nodes["output"] = op("output")
    return Topology(nodes, [*edges, (entry, "output")])


def read(topology: Topology) -> Iterator[dict[str, Option]]:
    """Yield the decisions that the linear layers, in their order, can come from: one guess for each kind of skip."""
    found = [topology.nodes[name] for name in topology.order]
    layers = [layer for layer in found if isinstance(layer, Operation) and layer.kind == "linear"]
    if not layers:
        return
    taken: dict[str, Option] = {"depth": len(layers)}
    for name in ("activation", "norm", "dropout"):
        taken[name] = layers[0][name] or 0.0 if name == "dropout" else layers[0][name] or False
    taken |= {f"width_{number}": layer["features"] or 0 for number, layer in enumerate(layers, start=1)}
    if len(layers) == 1:
        yield taken
    else:
        yield from ({**taken, "skip": skip} for skip in SKIPS)


SPACE = DecisionSpace(
    "tabular",
    [
        Choice("depth", tuple(range(1, DEPTH + 1)), ordered=True),
        Choice("skip", SKIPS, when={"depth": tuple(range(2, DEPTH + 1))}),
        Choice("activation", ("relu", "gelu", "silu", "tanh")),
        Choice("norm", (False, True)),
        Choice("dropout", (0.0, 0.1, 0.25), ordered=True),
        *(
            Choice(f"width_{number}", WIDTHS, when={"depth": tuple(range(number, DEPTH + 1))}, ordered=True)
            for number in range(1, DEPTH + 1)
        ),
    ],
    build,
    references={
        "residual": {
            "depth": 4,
            "skip": "residual",
            "activation": "relu",
            "norm": True,
            "dropout": 0.0,
            **{f"width_{number}": 256 for number in range(1, 5)},
        },
        "plain": {
            "depth": 2,
            "skip": "none",
            "activation": "relu",
            "norm": True,
            "dropout": 0.0,
            "width_1": 256,
            "width_2": 256,
        },
    },
    description="perceptrons with residual or dense skips, for vectors of features",
    kind="features",
    source="Gorishniy et al. 2021, arXiv 2106.11959",
    read=read,
)
