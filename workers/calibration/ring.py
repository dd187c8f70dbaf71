"""How fast ranks on this machine talk, how much they slow each other down, how long they take to meet."""

import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch._C._distributed_c10d import FileStore
from torch.multiprocessing.spawn import spawn

from detol.errors import WorkerLost
from detol.workers.calibration.timing import wait
from detol.workers.elastic.connection import choose_interface
from detol.workers.outcome import one_line

SIZES = (1024, 64 * 1024, 1024**2, 4 * 1024**2, 16 * 1024**2)
"""Bytes of the messages that are timed."""

APART = 1.1
"""Slowdown of GPUs side by side below which it is taken for noise: each has its own memory."""

PATIENCE = 120.0
"""Seconds after which ranks that do not meet are given up."""


@dataclass(frozen=True, slots=True)
class Ring:
    """What was measured between some ranks: of a link, the slowdown of computing side by side, and of meeting."""

    bandwidth: float
    latency: float
    crowd: float
    overlap: float
    setup: float
    agree: float


def ring(device: str, ranks: int, *, threads: int = 1) -> Ring:
    """Measure ranks of this machine, each a process of its own: by NCCL on as many GPUs, otherwise by gloo.

    Args:
        device: ``cpu`` or ``cuda``.
        ranks: >= 2.
        threads: of torch in each, on a CPU.

    Raises:
        WorkerLost: the ranks did not meet, or one of them died; NCCL is missing.
    """
    if device == "cuda" and not dist.is_nccl_available():
        raise WorkerLost("NCCL is missing in this torch: several GPUs cannot train together; install torch for CUDA")
    with tempfile.TemporaryDirectory(prefix="detol-ring-") as folder:
        try:
            spawn(_rank, (device, ranks, threads, folder), nprocs=ranks, join=True)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever a rank raised comes as text
            raise WorkerLost(one_line(f"ranks could not be measured: {str(error).strip().splitlines()[-1]}")) from None
        found: dict[str, Any] = torch.load(Path(folder) / "found.pt", weights_only=True)
    latency, bandwidth = line(found["sizes"], found["seconds"], ranks)
    return Ring(bandwidth, latency, **{name: found[name] for name in ("crowd", "overlap", "setup", "agree")})


def line(sizes: Sequence[int], seconds: Sequence[float], ranks: int) -> tuple[float, float]:
    """Return latency and bandwidth of a ring from timed all-reduces, by least squares of relative errors, both >= 0.

    t = 2 (n - 1) latency + 2 (n - 1) / n M / bandwidth, as :func:`detol.scaling.link.ring_seconds`.
    """
    from scipy.optimize import nnls

    times = np.asarray(seconds)
    rounds = 2 * (ranks - 1)
    columns = np.stack([np.full(len(times), rounds), rounds / ranks * np.asarray(sizes, dtype=float)], axis=1)
    (latency, inverse), _ = nnls(columns / times[:, None], np.ones(len(times)))
    return float(latency), 1 / max(float(inverse), 1e-13)


def _rank(rank: int, device: str, ranks: int, threads: int, folder: str) -> None:
    torch.set_num_threads(threads)
    place = torch.device(device, rank) if device == "cuda" else torch.device("cpu")
    if device == "cuda":
        torch.cuda.set_device(place)
        torch.zeros(1, device=place)  # the device starts before the clock does
    choose_interface("127.0.0.1")
    store = FileStore(f"{folder}/store", ranks)
    store.set(f"up{rank}", "1")
    store.wait([f"up{other}" for other in range(ranks)], timedelta(seconds=PATIENCE))
    began = time.perf_counter()
    limit = timedelta(seconds=PATIENCE)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
    control = dist.new_group(backend="gloo", timeout=limit)
    dist.all_reduce(torch.zeros(1, device=place))
    wait(place)
    setup = time.perf_counter() - began
    seconds = [_reduce(size, place, None) for size in SIZES]
    agree = _reduce(16, torch.device("cpu"), control)
    crowd = _crowd(rank, place, control)
    overlap = _overlap(place)
    if rank == 0:
        torch.save(
            {
                "sizes": list(SIZES),
                "seconds": seconds,
                "crowd": crowd,
                "overlap": overlap,
                "setup": setup,
                "agree": agree,
            },
            Path(folder) / "found.pt",
        )
    dist.barrier(group=control)
    dist.destroy_process_group()


def _reduce(size: int, device: torch.device, group: Any) -> float:
    values = torch.zeros(size // 4, device=device)
    times = []
    for _ in range(25 if size < 2**20 else 9):
        started = time.perf_counter()
        dist.all_reduce(values, group=group)
        wait(device)
        times.append(time.perf_counter() - started)
    return _low(times[2:])


def _work(device: torch.device) -> float:
    """Return the seconds of some typical computing: convolutions, and values that go through memory."""
    samples, channels = (256, 128) if device.type == "cuda" else (8, 32)
    x = torch.randn(samples, channels, 16, 16, device=device, requires_grad=True)
    weight = torch.randn(channels, channels, 3, 3, device=device, requires_grad=True)
    times = []
    for _ in range(30):
        started = time.perf_counter()
        F.relu(F.conv2d(x, weight, padding=1)).sum().backward()  # type: ignore[no-untyped-call]
        wait(device)
        times.append(time.perf_counter() - started)
    return _low(times[3:])


def _low(times: Sequence[float]) -> float:
    """Return the lower quartile: whatever else runs here only makes times longer, by fits."""
    return statistics.quantiles(times, n=4)[0]


def _crowd(rank: int, device: torch.device, control: Any) -> float:
    """Return how many times longer computing takes while all ranks compute than while one does; >= 1."""
    dist.barrier(group=control)
    alone = _work(device) if rank == 0 else 0.0
    dist.barrier(group=control)
    together = torch.tensor([_work(device)])
    dist.all_reduce(together, group=control)
    mean = together.item() / dist.get_world_size()
    slower = max(1.0, mean / alone) if rank == 0 else 1.0
    return slower if device.type == "cpu" or slower > APART else 1.0


def _overlap(device: torch.device) -> float:
    """Return the share of a message's time that computing beside it hides, in [0, 1]."""
    values = torch.zeros((16 if device.type == "cuda" else 1) * 1024**2, device=device)
    own = torch.randn(256, 256, device=device)

    def compute(count: int) -> None:
        for _ in range(count):
            torch.mm(own, own)
        wait(device)

    def message() -> Any:
        return dist.all_reduce(values, async_op=True)

    def seconds(count: int, *, send: bool) -> float:
        times = []
        for _ in range(9):
            dist.all_reduce(torch.zeros(1, device=device))
            wait(device)
            started = time.perf_counter()
            sent = message() if send else None
            compute(count)
            if sent is not None:
                sent.wait()
            wait(device)
            times.append(time.perf_counter() - started)
        return _low(times[1:])

    sending = seconds(0, send=True)
    one = seconds(8, send=False) / 8
    # As long as the message takes, on all ranks alike.
    count = torch.tensor([math.ceil(sending / max(one, 1e-7))], device=device)
    dist.all_reduce(count, dist.ReduceOp.MAX)
    times = int(count.item())
    alone, both = seconds(times, send=False), seconds(times, send=True)
    return min(1.0, max(0.0, (alone + sending - both) / sending))
