"""``signal``: one-dimensional convolutional networks in stages, for time series and sound.

Cardinality: 6,515,549,280 = 4 stem kernels x 3 stem strides x 3 blocks x 3 numbers of layers x 2 (attention) x
2 poolings x 3 rates of dropout x (30 + 6 x (30^2 + 30^3 + 30^4): 6 widths x 5 kernels for each stage, 3 halvings x 2
dilations where there are several).
Source: Wang et al. 2017, "Time Series Classification from Scratch", arXiv 1611.06455 (FCN and ResNet); dilation after
Bai et al. 2018, arXiv 1803.01271; large stem kernels after Dai et al. 2017, arXiv 1610.00087.
"""

from collections.abc import Iterator
from functools import lru_cache

from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.spaces.decisions import Choice, Decisions, Option
from detol.spaces.reading import inner
from detol.spaces.space import DecisionSpace

STAGES = 4
WIDTHS = (8, 16, 24, 32, 48, 64)
STEM_KERNELS = (3, 7, 15, 31)
KERNELS = (3, 5, 7, 9, 15)
BLOCKS = ("plain", "residual", "dense")


@lru_cache(maxsize=4096)
def block(kind: str, layers: int, kernel: int, dilation: int, width: int, attention: bool) -> Topology:
    """Return one stage's block: ``layers`` convolutions, with a skip around them where ``kind`` is ``residual``.

    In a ``dense`` block each convolution sees the block's input and all convolutions before it, concatenated.
    """
    nodes: dict[str, Operation | Topology] = {"input": op("input")}
    edges: list[tuple[str, str]] = []
    last = "input"
    seen = ["input"]
    for number in range(1, layers + 1):
        name = f"conv_{number}"
        kept = "none" if kind == "residual" and number == layers else "relu"
        nodes[name] = op("conv", kernel=kernel, dilation=dilation, channels=width, activation=kept)
        if kind == "dense" and number > 1:
            nodes[f"join_{number}"] = op("concat")
            edges += [*((source, f"join_{number}") for source in seen), (f"join_{number}", name)]
        else:
            edges.append((last, name))
        seen.append(name)
        last = name
    if attention:
        nodes["attention"] = op("squeeze_excite")
        edges.append((last, "attention"))
        last = "attention"
    if kind == "residual":
        nodes["activation"] = op("activation")
        edges += [(last, "activation"), ("input", "activation")]
        last = "activation"
    nodes["output"] = op("output")
    return Topology(nodes, [*edges, (last, "output")])


def build(decisions: Decisions) -> Topology:
    """Return stem, stages of one block each with a halving of the axis between them, pooling and dropout."""
    parts: list[Operation | Topology] = []
    for stage in range(1, int(decisions["stages"]) + 1):
        width = int(decisions[f"width_{stage}"])
        if stage == 1:
            stem = int(decisions["stem_kernel"])
            parts.append(op("conv", kernel=stem, channels=width, stride=decisions["stem_stride"]))
        elif decisions["halving"] == "conv":
            parts.append(op("conv", kernel=3, channels=width, stride=2))
        else:
            parts.append(op("pool", mode=decisions["halving"], kernel=3, stride=2))
        parts.append(
            block(
                str(decisions["block"]),
                int(decisions["layers"]),
                int(decisions[f"kernel_{stage}"]),
                int(decisions.get("dilation", 1)) ** (stage - 1),
                width,
                bool(decisions["attention"]),
            )
        )
    return chain(*parts, op("global_pool", mode=decisions["pooling"]), op("dropout", rate=decisions["dropout"]))


def read(topology: Topology) -> Iterator[dict[str, Option]]:
    """Yield the decisions that the structure of a network can come from: one guess for each kind of block."""
    taken: dict[str, Option] = {"dropout": 0.0, "dilation": 1, "halving": "conv"}
    stage = 0
    for _, node in inner(topology):
        if isinstance(node, Topology):
            stage += 1
            found = [layer for _, layer in inner(node) if isinstance(layer, Operation)]
            layers = [layer for layer in found if layer.kind == "conv"] or [op("conv")]
            taken |= {"layers": len(layers), "attention": any(layer.kind == "squeeze_excite" for layer in found)}
            taken |= {f"width_{stage}": layers[0]["channels"] or 0, f"kernel_{stage}": layers[0]["kernel"] or 0}
            if stage == 2:
                taken["dilation"] = layers[0]["dilation"] or 1
        elif node.kind == "conv" and stage == 0:
            taken |= {"stem_kernel": node["kernel"] or 0, "stem_stride": node["stride"] or 0}
        elif node.kind in ("pool", "global_pool"):
            taken["halving" if node.kind == "pool" else "pooling"] = node["mode"] or ""
        elif node.kind == "dropout":
            taken["dropout"] = node["rate"] or 0.0
    taken["stages"] = stage
    if stage == 1:
        taken = {name: option for name, option in taken.items() if name not in ("dilation", "halving")}
    yield from ({**taken, "block": kind} for kind in BLOCKS)


def _choices() -> list[Choice]:
    choices = [
        Choice("stem_kernel", STEM_KERNELS, ordered=True),
        Choice("stem_stride", (1, 2, 4), ordered=True),
        Choice("stages", tuple(range(1, STAGES + 1)), ordered=True),
        Choice("halving", ("conv", "max", "avg"), when={"stages": tuple(range(2, STAGES + 1))}),
        Choice("dilation", (1, 2), when={"stages": tuple(range(2, STAGES + 1))}, ordered=True),
        Choice("block", BLOCKS),
        Choice("layers", (1, 2, 3), ordered=True),
        Choice("attention", (False, True)),
    ]
    for stage in range(1, STAGES + 1):
        when = {"stages": tuple(range(stage, STAGES + 1))} if stage > 1 else {}
        choices.append(Choice(f"width_{stage}", WIDTHS, when=when, ordered=True))
        choices.append(Choice(f"kernel_{stage}", KERNELS, when=when, ordered=True))
    return [*choices, Choice("pooling", ("avg", "max")), Choice("dropout", (0.0, 0.1, 0.25), ordered=True)]


def reference(kind: str) -> dict[str, Option]:
    """Return the decisions of three stages of two convolutions (Wang et al. 2017, with a quarter of their widths)."""
    taken: dict[str, Option] = {"stem_kernel": 7, "stem_stride": 1, "stages": 3, "halving": "max", "dilation": 1}
    taken |= {"block": kind, "layers": 2, "attention": False, "pooling": "avg", "dropout": 0.0}
    for stage, (width, kernel) in enumerate(((16, 7), (32, 5), (64, 3)), start=1):
        taken |= {f"width_{stage}": width, f"kernel_{stage}": kernel}
    return taken


SPACE = DecisionSpace(
    "signal",
    _choices(),
    build,
    references={"residual": reference("residual"), "plain": reference("plain")},
    description="one-dimensional convolutional networks in stages, for time series and sound",
    kind="signal",
    source="Wang et al. 2017, arXiv 1611.06455; Bai et al. 2018, arXiv 1803.01271",
    read=read,
)
