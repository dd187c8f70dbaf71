"""One packed file against many small JPEG files: images per second, cold and warm, feeding one epoch.

CIFAR-10 as 60,000 JPEG files (the JPEG copy of ../shared/data) in a folder for each class, against ``detol data pack``
of that folder: decoded (uint8, the default) and ``--encoded``. An epoch hands out every image of every split once, in
batches of 256, in a random order that is another one in each run, as uint8 tensors on the CPU:

- files: Pillow in one thread; Pillow in torch's DataLoader with as many processes as cores (what people use);
- packed: the memory map indexed by batch, as training on a CPU does; and the prefetching feed of training on a GPU;
- encoded: the feed, which decodes in as many threads as cores.

Cold: before a run the pages of all its files are dropped (posix_fadvise DONTNEED, file by file), and of a sample of
them it is looked at (preadv2 RWF_NOWAIT) that they are gone. Directories and inodes stay cached: with these dropped
too, files would be slower still. Disks of virtual machines may be cached by their host. Warm: the same epoch at once
again. Beside images per second of the clock those per second of processor time are given (of this process and its
children, as the system counts it, in hundredths): on a machine that others use too they say more.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import arguments, conclude, spread
from PIL import Image
from torch.utils.data import DataLoader

from detol.workers.data import read
from detol.workers.data.feed import Feed, shared
from detol.workers.data.packed.make import pack
from detol.workers.data.packed.verify import verify

SHARED = Path(os.environ.get("DETOL_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
BATCH = 256
CPU = torch.device("cpu")
Run = Callable[[int], int]


class Pictures:
    """Image files as a data set of torch."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> torch.Tensor:
        with Image.open(self.files[number]) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


def files_alone(files: list[Path]) -> Run:
    """Return an epoch of Pillow in this thread."""
    pictures = Pictures(files)

    def run(seed: int) -> int:
        order, seen = random.Random(seed).sample(range(len(files)), len(files)), 0
        for start in range(0, len(order), BATCH):
            seen += len(torch.stack([pictures[number] for number in order[start : start + BATCH]]))
        return seen

    return run


def files_loaded(files: list[Path], workers: int) -> Run:
    """Return an epoch of torch's DataLoader."""

    def run(seed: int) -> int:
        generator = torch.Generator().manual_seed(seed)
        loader: Any = DataLoader(Pictures(files), BATCH, shuffle=True, num_workers=workers, generator=generator)  # type: ignore[arg-type]
        return sum(len(batch) for batch in loader)

    return run


def epoch(path: Path, fed: bool) -> Run:
    """Return an epoch of a packed file, opened anew in each."""

    def run(seed: int) -> int:
        seen = 0
        for part in read(path).splits().values():
            order = torch.randperm(len(part), generator=torch.Generator().manual_seed(seed))
            units = [slice(start, min(start + BATCH, len(part))) for start in range(0, len(part), BATCH)]
            x: Any = Feed(part.x, CPU) if fed else shared(part.x)
            if fed:
                x.begin(order, units)
            for unit in units:
                seen += len(x.index_select(0, order[unit]))
        return seen

    return run


def dropped(files: list[Path]) -> float:
    """Drop the pages of files from the page cache; return which share of a sample of the files is gone."""
    for file in files:
        with contextlib.closing(_Handle(file)) as handle:
            os.posix_fadvise(handle.number, 0, 0, os.POSIX_FADV_DONTNEED)
    probed = random.Random(0).sample(files, min(200, len(files)))
    return sum(not held for file in probed for held in _held(file)) / sum(1 for file in probed for _ in _held(file))


def _held(file: Path) -> Iterator[bool]:
    """Yield whether pages of a file, eight at most, are in the page cache."""
    size = file.stat().st_size
    with contextlib.closing(_Handle(file)) as handle:
        for place in range(0, size, max(4096, size // 8)):
            try:
                yield os.preadv(handle.number, [bytearray(1)], place, os.RWF_NOWAIT) > 0
            except BlockingIOError:
                yield False


class _Handle:
    def __init__(self, file: Path) -> None:
        self.number = os.open(file, os.O_RDONLY)

    def close(self) -> None:
        os.close(self.number)


def measured(run: Run, files: list[Path], count: int, repeats: int) -> dict[str, Any]:
    """Return images per second of an epoch, cold and warm, and per second of all processors together."""
    rates: dict[str, list[float]] = {"cold": [], "warm": []}
    work: dict[str, list[float]] = {"cold": [], "warm": []}
    gone = []
    for repeat in range(repeats):
        gone.append(dropped(files))
        for how in rates:
            began, before = time.perf_counter(), sum(os.times()[:4])
            seen = run(repeat)
            rates[how].append(count / (time.perf_counter() - began))
            work[how].append(count / max(0.01, sum(os.times()[:4]) - before))
            assert seen == count, f"{seen} of {count} images came"
    found: dict[str, Any] = {how: _whole(spread(values)) for how, values in rates.items()}
    return found | {
        "per_processor_second": {how: _whole(spread(values)) for how, values in work.items()},
        "dropped": round(min(gone), 3),
    }


def _whole(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value) for name, value in figures.items()}


def made(folder: Path, count: int) -> str:
    """Write the JPEG files; return what they are."""
    if count == 60_000 and (SHARED / "unpack.py").exists():
        subprocess.run([sys.executable, str(SHARED / "unpack.py"), "cifar10-folder", str(folder)], check=True)
        return "CIFAR-10 (JPEG copy)"
    rng = np.random.default_rng(0)
    for number in range(count):
        place = folder / f"class_{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(small).resize((32, 32)).save(place / f"{number:05}.jpg", quality=90)
    return "generated images"


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function returns, and its seconds."""
    began = time.perf_counter()
    found = function()
    return found, round(time.perf_counter() - began, 3)


def main() -> None:
    """Measure, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--repeats", type=int, default=0, help="epochs of each kind, cold and warm (default 3; quick 1)"
    )
    options = parser.parse_args()
    count, repeats = (3_000, 1) if options.quick else (60_000, 3)
    repeats = options.repeats or repeats
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="detol-packing-", dir=os.environ.get("TMPDIR")))
    try:
        source = made(folder / "images", count)
        os.sync()  # what is not written yet cannot be dropped
        files = sorted(path for path in (folder / "images").rglob("*.jpg"))
        assert len(files) == count, f"{len(files)} files, {count} wanted"
        plain, encoded = folder / "plain.pack", folder / "encoded.pack"
        dataset, reading = timed(lambda: read(folder / "images"))
        _, packing = timed(lambda: pack(folder / "images", plain))
        _, keeping = timed(lambda: pack(folder / "images", encoded, encoded=True))
        found, verifying = timed(lambda: verify(plain))
        assert found["digest"] == dataset.digest == read(encoded).digest, "packed is not unpacked"
        _, opening = timed(lambda: read(plain))
        sizes = {"files": sum(file.stat().st_size for file in files)}
        sizes |= {"packed": plain.stat().st_size, "encoded": encoded.stat().st_size}
        rates = {
            "files, one thread": measured(files_alone(files), files, count, repeats),
            f"files, DataLoader with {cores} processes": measured(files_loaded(files, cores), files, count, repeats),
            "packed, memory map": measured(epoch(plain, False), [plain], count, 5 * repeats),
            "packed, feed": measured(epoch(plain, True), [plain], count, 5 * repeats),
            "encoded, feed": measured(epoch(encoded, True), [encoded], count, repeats),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    best = {how: max(rates[name][how]["median"] for name in list(rates)[:2]) for how in ("cold", "warm")}
    print(f"{'images per second':<40} {'cold':>10} {'warm':>10} {'warm, by processor time':>25}")
    for name, rate in rates.items():
        shown = rate["cold"]["median"], rate["warm"]["median"], rate["per_processor_second"]["warm"]["median"]
        print(f"{name:<40} {shown[0]:>10,} {shown[1]:>10,} {shown[2]:>25,}")
    conclude(
        {
            "benchmark": "packing",
            "quick": options.quick,
            "images": count,
            "source": source,
            "batch": BATCH,
            "bytes": sizes,
            "seconds": {
                "read folder": reading,
                "pack": packing,
                "pack encoded": keeping,
                "verify": verifying,
                "open": opening,
            },
            "images_per_second": rates,
            "packed_over_best_files": {
                how: round(rates["packed, memory map"][how]["median"] / best[how], 1) for how in best
            },
            "load_average": os.getloadavg()[0],
        },
        options.json,
    )


if __name__ == "__main__":
    main()
