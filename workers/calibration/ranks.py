"""What a step of several ranks takes to start: the training loop itself, with tiny networks, on this machine."""

import json
import tempfile
import time
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

from detol.errors import WorkerLost
from detol.scaling.link import Link, ring_seconds
from detol.scaling.work import Work
from detol.workers.calibration.overheads import CLASSES, DEPTHS, TINY, network, step_seconds
from detol.workers.elastic.plan import Rendezvous
from detol.workers.outcome import one_line
from detol.workers.process_group import ProcessGroup, serve
from detol.workers.tensors import use_threads


def wide_starts(device: str, ranks: int, precision: str, link: Link) -> tuple[float, float]:
    """Return the seconds of starting a layer, and of what is left of a step, where some ranks train together.

    What their gradients take on the link is not in it; the small messages by which they agree are.

    Args:
        device: ``cpu`` or ``cuda``.
        ranks: >= 2.
        precision: of products, as a recipe names it.
        link: between them, as measured.

    Raises:
        WorkerLost: the ranks did not meet, or one of them died.
    """
    with tempfile.TemporaryDirectory(prefix="detol-ranks-") as folder:
        store, place = serve()
        try:
            spawn(_rank, (ranks, device, precision, place.port, folder), nprocs=ranks, join=True)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a rank raised comes as text
            raise WorkerLost(one_line(f"ranks could not be measured: {str(error).strip().splitlines()[-1]}")) from None
        finally:
            del store
        shallow, deep = json.loads(Path(folder, "seconds.json").read_text(encoding="utf-8"))
    few, many = (Work.of(network(depth), (3, 8, 8), CLASSES) for depth in DEPTHS)
    shallow -= ring_seconds(few.gradient_bytes, ranks, link)
    deep -= ring_seconds(many.gradient_bytes, ranks, link)
    layer = max(0.0, (deep - shallow) / (len(many.layers) - len(few.layers)))
    return layer, max(0.0, shallow - layer * len(few.layers))


def _rank(rank: int, ranks: int, device: str, precision: str, port: int, folder: str) -> None:
    use_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    group = ProcessGroup(Rendezvous("127.0.0.1", port), rank, ranks, backend=backend)
    samples = TINY[2] * ranks
    found = [
        step_seconds(
            network(depth), torch.device(device), precision, TINY[1], samples, group=group, clock=time.perf_counter
        )
        for depth in DEPTHS
    ]
    if rank == 0:
        Path(folder, "seconds.json").write_text(json.dumps(found), encoding="utf-8")
    group.close()
