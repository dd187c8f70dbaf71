"""Tables that no search strategy of detol was made for: each topology of four small spaces, really trained on digits.

Made as a user would: a space in a file of its own beside a CSV file with a row for each of its topologies.

- ``macro``: chains of 8 residual blocks, each of them left out, narrow or wide (6,561 rows), as in NAS-Bench-Macro (Su
  et al. 2021).
- ``cells``: cells of 5 nodes and 10 edges, each edge none, skip or dense (59,049 rows), as in NAS-Bench-201.
- ``graphnet``: graph networks on the neighbourhood graph of the images: 9 wirings of 4 layers, each one of 6 operations
  (11,664 rows), as in NAS-Bench-Graph (Qin et al. 2022).
- ``dag``: 1 to 5 nodes, each with an operation and the node it reads; choices open with the number of nodes (31,287
  rows).

All networks of a chunk are trained side by side, each with weights and Adam moments of its own. All start from the same
weights where their parts have the same shapes and see the same batches, so that scores differ by the topology and less
by chance, as in tables that average several trainings. The score is the accuracy on 797 validation images in percent.
"""

import argparse
import csv
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch.nn import functional as F

Forward: TypeAlias = Callable[[list[torch.Tensor], torch.Tensor, torch.Tensor], torch.Tensor]
"""(weights, codes of the networks, images) -> logits (networks, images, 10)."""

WIDTH = 12
STEPS, BATCH, RATE = 40, 100, 0.01
MACRO = ("skip", "narrow", "wide")
CELL = ("none", "skip", "dense")
EDGES = [(source, target) for target in range(1, 5) for source in range(target)]
GRAPH = ("identity", "fc", "gcn", "sage", "gin", "cheb")
READ = ("0000", "0001", "0011", "0012", "0111", "0112", "0122", "0123", "0003")
WIRINGS = [tuple(map(int, wiring)) for wiring in READ]
DAG = ("relu", "tanh", "gate")

FILES = {
    "macro": """
from detol.graph.ops import op
from detol.spaces.cells import chain_space

BLOCKS = {size: op("symbol", name="block", value=size) for size in ("narrow", "wide")}
BLOCKS = {"skip": None, **BLOCKS}
SPACE = chain_space("macro", 8, BLOCKS)
""",
    "cells": """
from detol.graph.ops import op
from detol.spaces.cells import cell_space

SPACE = cell_space("cells", {"none": None, "skip": op("identity"), "dense": op("linear", features=12)}, nodes=5)
""",
    "graphnet": """
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

OPERATIONS = ("identity", "fc", "gcn", "sage", "gin", "cheb")
SPACE = DecisionSpace(
    "graphnet", [Choice("wiring", tuple(f"w{n}" for n in range(9))), *(Choice(f"op_{n}", OPERATIONS) for n in range(4))]
)
""",
    "dag": """
from detol.graph.ops import op
from detol.graph.topology import Topology
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

def build(decisions):
    nodes, edges, read = {"input": op("input")}, [], set()
    names = ["input", *(f"node_{n}" for n in range(1, decisions["nodes"] + 1))]
    for n, name in enumerate(names[1:], start=1):
        nodes[name] = op("symbol", name="op", value=decisions[f"op_{n}"])
        edges.append((names[decisions.get(f"from_{n}", 0)], name))
    nodes["output"] = op("output")
    leaves = set(names) - {source for source, _ in edges}
    return Topology(nodes, [*edges, *((name, "output") for name in names if name in leaves)])

SPACE = DecisionSpace("dag", [
    Choice("nodes", (1, 2, 3, 4, 5), ordered=True),
    *(
        choice
        for n in range(1, 6)
        for choice in (
            Choice(f"op_{n}", ("relu", "tanh", "gate"), when={"nodes": tuple(range(n, 6))}),
            *([Choice(f"from_{n}", tuple(range(n)), when={"nodes": tuple(range(n, 6))})] if n > 1 else []),
        )
    ),
], build)
""",
}  # fmt: skip


def main() -> None:
    """Make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="directory")
    parser.add_argument("--only", choices=tuple(FILES), action="append")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each training")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.only or FILES:
        start = time.perf_counter()
        header, rows, codes, forward, shapes = TABLES[name]()
        scores = np.concatenate([_train(part, forward, shapes, options.steps) for part in _chunks(codes)])
        (options.to / f"{name}.py").write_text(FILES[name].lstrip(), encoding="utf-8")
        with (options.to / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*header, "val_accuracy"])
            writer.writerows([*row, f"{score:.4f}"] for row, score in zip(rows, scores, strict=True))
        seconds = time.perf_counter() - start
        print(f"{name}: {len(rows)} rows, best {scores.max():.2f}, median {np.median(scores):.2f}, {seconds:.0f} s")


Made: TypeAlias = tuple[Sequence[str], Sequence[Sequence[object]], np.ndarray, Forward, Sequence[tuple[int, ...]]]


def macro() -> Made:
    """Chains of residual blocks."""
    rows = list(itertools.product(range(3), repeat=8))
    hidden = torch.tensor([0, 4, 16])

    def forward(w: list[torch.Tensor], codes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        here = torch.tanh(images @ w[0])
        for layer in range(8):
            mask = (torch.arange(16) < hidden[codes[:, layer]][:, None]).float()[:, None]
            inner = F.layer_norm(here, (WIDTH,)) @ w[1][:, layer]
            here = here + (torch.relu(inner) * mask) @ w[2][:, layer]
        return here @ w[3]

    shapes = [(64, WIDTH), (8, WIDTH, 16), (8, 16, WIDTH), (WIDTH, 10)]
    names = [f"layer_{n}" for n in range(1, 9)]
    return names, [[MACRO[n] for n in row] for row in rows], np.array(rows), forward, shapes


def cells() -> Made:
    """Cells with an operation on each edge, after a stem."""
    rows = list(itertools.product(range(3), repeat=len(EDGES)))

    def forward(w: list[torch.Tensor], codes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        nodes = [torch.tanh(images @ w[0])]
        for target in range(1, 5):
            total = torch.zeros_like(nodes[0])
            for place, (source, into) in enumerate(EDGES):
                if into == target:
                    total = total + (codes[:, place] == 1).float()[:, None, None] * nodes[source]
                    dense = torch.relu(nodes[source] @ w[1][:, place])
                    total = total + (codes[:, place] == 2).float()[:, None, None] * dense
            nodes.append(total)
        return nodes[4] @ w[2]

    names = [f"edge_{source}_{target}" for source, target in EDGES]
    shapes = [(64, WIDTH), (10, WIDTH, WIDTH), (WIDTH, 10)]
    return names, [[CELL[n] for n in row] for row in rows], np.array(rows), forward, shapes


def graphnet() -> Made:
    """Layers over the neighbourhood graph of the images; what no layer reads is added up."""
    rows = list(itertools.product(range(len(WIRINGS)), *[range(len(GRAPH))] * 4))

    def forward(w: list[torch.Tensor], codes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        near = _neighbours(images)
        nodes, places = [torch.tanh(images @ w[0])], torch.tensor(WIRINGS)[codes[:, 0]]
        read = torch.zeros(len(codes), 5)
        for layer in range(4):
            each = torch.stack(nodes, 1)
            here = each[torch.arange(len(codes)), places[:, layer]]
            read[torch.arange(len(codes)), places[:, layer]] = 1.0
            mean = near @ here
            a, b = w[1][:, layer], w[2][:, layer]
            fc, gcn, sage = here @ a, mean @ a, here @ a + mean @ b
            gin, cheb = torch.relu((here + mean) @ a) @ b, here @ a + (here - mean) @ b
            made = torch.stack([here, *(torch.relu(part) for part in (fc, gcn, sage, gin, cheb))])
            nodes.append(made[codes[:, 1 + layer], torch.arange(len(codes))])
        leaves = (1 - read)[:, :, None, None]
        return (torch.stack(nodes, 1) * leaves).sum(1) @ w[3]

    shown = [[f"w{row[0]}", *(GRAPH[n] for n in row[1:])] for row in rows]
    shapes = [(64, WIDTH), (4, WIDTH, WIDTH), (4, WIDTH, WIDTH), (WIDTH, 10)]
    return ["wiring", *(f"op_{n}" for n in range(4))], shown, np.array(rows), forward, shapes


def dag() -> Made:
    """One to five nodes, each reading an earlier one; what is not read is added up."""
    header = ["nodes", "op_1", *(f"{kind}_{n}" for n in range(2, 6) for kind in ("op", "from"))]
    shown, codes = [], []
    for count in range(1, 6):
        spaces = [range(3), *(part for n in range(2, count + 1) for part in (range(3), range(n)))]
        for row in itertools.product(*spaces):
            ops, sources = [row[0], *row[1::2]], [0, *row[2::2]]
            named = [DAG[row[0]], *(DAG[v] if n % 2 == 0 else v for n, v in enumerate(row[1:]))]
            shown.append([count, *named, *[""] * (9 - len(named))])
            codes.append([count, *ops, *[0] * (5 - count), *sources, *[0] * (5 - count)])

    def forward(w: list[torch.Tensor], codes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        everyone = torch.arange(len(codes))
        nodes, read = [torch.tanh(images @ w[0])], torch.zeros(len(codes), 6)
        for n in range(5):
            alive, source = (codes[:, 0] > n), codes[:, 6 + n]
            here = torch.stack(nodes, 1)[everyone, source]
            read[everyone[alive], source[alive]] = 1.0
            inner = here @ w[1][:, n]
            made = torch.stack([torch.relu(inner), torch.tanh(inner), here * torch.sigmoid(inner)])
            nodes.append(made[codes[:, 1 + n], everyone])
            read[~alive, n + 1] = 1.0
        return (torch.stack(nodes, 1) * (1 - read)[:, :, None, None]).sum(1) @ w[2]

    return header, shown, np.array(codes), forward, [(64, WIDTH), (5, WIDTH, WIDTH), (WIDTH, 10)]


TABLES: dict[str, Callable[[], Made]] = {"macro": macro, "cells": cells, "graphnet": graphnet, "dag": dag}


def _chunks(codes: np.ndarray, size: int = 128) -> list[torch.Tensor]:
    return [torch.from_numpy(codes[at : at + size]) for at in range(0, len(codes), size)]


def _neighbours(images: torch.Tensor, count: int = 6) -> torch.Tensor:
    """Return the mean over the nearest images as a matrix (images, images)."""
    apart = torch.cdist(images, images)
    near = apart.topk(count + 1, largest=False).indices[:, 1:]
    return torch.zeros(len(images), len(images)).scatter_(1, near, 1.0 / count)


def _train(codes: torch.Tensor, forward: Forward, shapes: Sequence[tuple[int, ...]], steps: int) -> np.ndarray:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x, y = torch.tensor(images[order] / 16.0, dtype=torch.float32), torch.tensor(labels[order])
    draws = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=draws) * shape[-2] ** -0.5 for shape in shapes]
    w = [weight.repeat(len(codes), *[1] * weight.dim()) for weight in start]
    for weight in w:
        weight.requires_grad_()
    optimiser = torch.optim.Adam(w, lr=RATE)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / steps)
        batch = torch.randint(1000, (BATCH,), generator=draws)
        logits = forward(w, codes, x[batch])
        loss = F.cross_entropy(logits.flatten(0, 1), y[batch].repeat(len(codes)), reduction="sum") / BATCH
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        right = (forward(w, codes, x[1000:]).argmax(-1) == y[1000:]).float().mean(1)
    return np.asarray(100 * right.numpy())


if __name__ == "__main__":
    main()
