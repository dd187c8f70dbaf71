"""The graph autoencoder that comes with detol: trained anew, and how well it writes what it has never seen.

``--train STEPS --to FILE`` trains it on graphs of detol's own spaces without a tenth of them (as
``detol.embedding.pretrain`` says) and writes the weights; the file that comes with detol was made so. Then, or without
``--train`` of the weights that come with detol: of held-out cells of NAS-Bench-201 and of held-out networks of
image_dag, how many are written exactly (equal digests) from their latent point, and how many of the written ones are
members of the space. And of points drawn from the spread of each space: how many are members, and how many of those
are different.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from common import arguments, conclude

from detol.embedding import pretrain
from detol.embedding.autoencoder import Autoencoder, vocabulary
from detol.embedding.graphs import Graph, put_together, take_apart
from detol.embedding.weights import from_bytes, pretrained, to_bytes
from detol.errors import TopologyError
from detol.search_spaces import nasbench201
from detol.spaces import catalogue
from detol.spaces.space import DecisionSpace

REACH = {"nasbench201": (0.99, 0.95), "image_dag": (0.90, 0.0)}
"""Shares of members and of exact ones that the issue asks for."""


def main() -> None:
    """Train if asked, and measure."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--train", type=int, default=0, help=f"updates (what comes with detol: {pretrain.STEPS})")
    parser.add_argument("--to", type=Path, help="file for the weights")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for training")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="held-out networks of image_dag, and points drawn")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    start = time.perf_counter()
    model = pretrained()
    if options.train:
        spaces = [catalogue.load(name) for name in pretrain.SAMPLES]
        shown = _progress(start, options.train)
        trained = pretrain.pretrain(spaces, steps=options.train, device=options.device, progress=shown)
        data = to_bytes(trained)
        if options.to:
            options.to.write_bytes(data)
        model = from_bytes(data)  # as it will be read: in half precision
    count = 100 if options.quick else options.count
    figures: dict[str, Any] = {"version": model.version, "parameters": sum(p.numel() for p in model.parameters())}
    figures |= {"quick": options.quick, "trained_steps": options.train or None}
    for name in REACH:
        figures[name] = _measure(model, catalogue.load(name), count)
        print(name, figures[name], file=sys.stderr)
    figures["reach"] = {
        name: figures[name]["members"] >= members and figures[name]["exact"] >= exact
        for name, (members, exact) in REACH.items()
    }
    conclude({**figures, "seconds": time.perf_counter() - start}, options.json)


def _measure(model: Autoencoder, space: DecisionSpace, count: int) -> dict[str, Any]:
    unseen, words = _unseen(space, count)
    points = model.encode(unseen)
    written = model.decode(points, words)
    exact = [one == other for one, other in zip(written, unseen, strict=True)]
    spread, mean = points.std(0, correction=0), points.mean(0)
    noise = torch.randn(count, model.latent, generator=torch.Generator().manual_seed(0))
    drawn = model.decode(mean + spread * noise, words)
    members = [graph for graph in drawn if graph is not None and _member(space, graph)]
    return {
        "n": len(unseen),
        "exact": float(np.mean(exact)),
        "members": float(np.mean([graph is not None and _member(space, graph) for graph in written])),
        "drawn": count,
        "drawn_members": len(members) / count,
        "drawn_different": len(set(members)) / max(1, len(members)),
    }


def _unseen(space: DecisionSpace, count: int) -> tuple[Sequence[Graph], Any]:
    """Return held-out graphs of what varies in a space, and the operations that may stand in one."""
    if space.name == "nasbench201":
        cells = {take_apart(nasbench201.cell(decisions))[0] for decisions in space.enumerate()}
        kept = sorted((graph for graph in cells if pretrain.held_out(graph)), key=str)
        return kept if count >= 500 else kept[:: max(1, len(kept) // count)], vocabulary(sorted(cells, key=str))
    rng = np.random.default_rng(12345)
    drawn = sorted({take_apart(space.decode(space.sample(rng)))[0] for _ in range(12 * count)}, key=str)
    kept = [graph for graph in drawn if pretrain.held_out(graph)]
    order = np.random.default_rng(0).permutation(len(kept))
    return [kept[place] for place in order[:count]], vocabulary(drawn)


_AROUND = take_apart(nasbench201.SPACE.decode(nasbench201.decisions("333333")))


def _member(space: DecisionSpace, graph: Graph) -> bool:
    """Return whether a written graph is one of the space; a cell of NAS-Bench-201 in its network."""
    try:
        parts = (_AROUND[0], graph, *_AROUND[2:]) if space.name == "nasbench201" else (graph,)
        return put_together(parts) in space
    except TopologyError:
        return False


def _progress(start: float, steps: int) -> Any:
    def show(step: int, loss: float) -> None:
        if (step + 1) % max(1, steps // 40) == 0:
            taken = time.perf_counter() - start
            left = taken / (step + 1) * (steps - step - 1)
            print(f"{step + 1}/{steps}: loss {loss:.3f}, {taken:.0f} s, {left:.0f} s left", file=sys.stderr, flush=True)

    return show


if __name__ == "__main__":
    main()
