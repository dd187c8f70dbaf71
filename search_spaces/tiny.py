"""``tiny``: small perceptrons, few enough to train them all; for first steps, tests and exhaustive searches.

Cardinality: 3 widths x 2 activations x (one layer, or two layers with or without a skip) = 18 topologies, no two alike.
Source: multilayer perceptrons with a skip connection, as in any textbook (Bishop and Bishop 2024, chapter 6).
Works on every kind of data: images and signals are flattened first.
"""

from detol.graph.ops import Operation, op
from detol.graph.topology import Topology
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace


def build(decisions: Decisions) -> Topology:
    """Return flatten -> linear [-> linear, with or without the first layer's output added to it]."""
    layer = op("linear", features=decisions["width"], activation=decisions["activation"])
    nodes: dict[str, Operation | Topology] = {"input": op("input"), "flatten": op("flatten"), "layer_1": layer}
    edges = [("input", "flatten"), ("flatten", "layer_1")]
    last = "layer_1"
    if decisions["layers"] == 2:
        nodes["layer_2"] = layer
        edges.append(("layer_1", "layer_2"))
        last = "layer_2"
    nodes["output"] = op("output")
    edges.append((last, "output"))
    if decisions.get("skip"):
        edges.append(("layer_1", "output"))
    return Topology(nodes, edges)


SPACE = DecisionSpace(
    "tiny",
    [
        Choice("width", (16, 32, 64), ordered=True),
        Choice("activation", ("relu", "tanh")),
        Choice("layers", (1, 2), ordered=True),
        Choice("skip", (False, True), when={"layers": (2,)}),
    ],
    build,
    references={
        "residual": {"width": 64, "activation": "relu", "layers": 2, "skip": True},
        "plain": {"width": 64, "activation": "relu", "layers": 1},
    },
    description="small perceptrons, few enough to train them all",
    kind="any",
    source="multilayer perceptrons with a skip (Bishop and Bishop 2024, chapter 6)",
)
