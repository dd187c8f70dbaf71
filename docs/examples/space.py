"""A search space: one to three blocks of convolutions, each of them followed by a pool or not.

::

    detol spaces docs/examples/space.py
    detol search --data digits --space docs/examples/space.py
"""

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

BLOCKS = (1, 2, 3)

CHOICES = [
    Choice("blocks", BLOCKS, ordered=True),
    Choice("width", (8, 16, 32), ordered=True),
    # A choice may be open only when earlier ones allow it: block 3 exists where there are 3 blocks.
    *(Choice(f"kernel_{n}", (1, 3, 5), ordered=True, when={"blocks": range(n, 4)}) for n in BLOCKS),
    *(Choice(f"pool_{n}", (True, False), when={"blocks": range(n, 4)}) for n in BLOCKS),
]


def build(d):
    """Return the network that the decisions stand for: a graph of operations, no weights."""
    layers = []
    for n in range(1, d["blocks"] + 1):
        layers.append(op("conv", kernel=d[f"kernel_{n}"], channels=d["width"] * n))
        if d[f"pool_{n}"]:
            layers.append(op("pool", mode="max", kernel=3, stride=2))
    return chain(*layers)  # the output gets a pool and a classifier of the data's own size


SPACE = DecisionSpace(
    "blocks",
    CHOICES,
    build,
    kind="image",
    description="one to three convolutions, with or without pools between them",
    # Hand-designed networks: each search tries them first, and says what searching gained over them.
    references={"plain": {"blocks": 2, "width": 16, "kernel_1": 3, "kernel_2": 3, "pool_1": True, "pool_2": False}},
)
