"""What devices this machine has, found without loading torch."""

import functools
import os
from pathlib import Path

from detol.errors import UsageError


def gpus() -> int:
    """Return how many NVIDIA GPUs this process may use: the device files, or what ``CUDA_VISIBLE_DEVICES`` leaves."""
    there = len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name.removeprefix("nvidia").isdecimal()])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return there
    return min(there, len([part for part in visible.split(",") if part.strip() and part.strip() != "-1"]))


def cpus() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def multiplies_bfloat16() -> bool:
    """Return whether this machine's processor multiplies matrices of bfloat16 in hardware (Intel's AMX).

    ``ONEDNN_MAX_CPU_ISA`` may have torch do without.
    """
    most = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if most not in ("", "ALL", "DEFAULT") and "AMX" not in most:
        return False
    about = Path("/proc/cpuinfo")
    return about.is_file() and "amx_bf16" in about.read_text(encoding="utf-8", errors="replace").split()


def check(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        UsageError: ``cuda`` without a GPU.
    """
    if device == "cuda" and not gpus():
        raise UsageError("--device cuda needs an NVIDIA GPU, and none is here: leave it out, or use --device cpu")


def uses_gpu(device: str) -> bool:
    """Return whether workers on a device (``auto``, ``cpu`` or ``cuda``) train on GPUs of this machine."""
    return device != "cpu" and gpus() > 0


def memory(workers: int, device: str) -> float:
    """Return bytes of memory that each of some workers has: of its share of a GPU, or of the machine.

    The machine's memory is what its control group allows, where one does.
    """
    count = gpus() if device != "cpu" else 0
    if count:
        import torch

        if torch.cuda.is_available():
            least = min(torch.cuda.get_device_properties(number).total_memory for number in range(count))
            return least / max(1.0, workers / count)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and (text := group.read_text().strip()).isdecimal():
        total = min(total, int(text))
    return total / workers
