"""One small source of every kind that detol reads, with what is awkward about each."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from detol.workers.data import csvfile, folder, lazy

Built = tuple[Any, dict[str, Any]]
RNG = np.random.default_rng(20261128)
LABELS = np.arange(120) % 3
GREY = RNG.integers(0, 256, (120, 9, 7), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (120, 9, 7, 3), dtype=np.uint8)
SIGNALS = np.cumsum(RNG.normal(size=(120, 2, 40)), axis=2).astype(np.float32)
FEATURES = RNG.normal(50, 3, size=(120, 6))


def holes(values: Any) -> Any:
    values = values.copy()
    values[::13, 1] = np.nan
    return values


def builtin(name: str) -> Callable[[Path], Built]:
    return lambda _: (name, {})


def mapping(_: Path) -> Built:
    return {"x": SIGNALS, "y": LABELS}, {}


def npz_stored(at: Path) -> Built:
    np.savez(at / "a.npz", x=COLOUR, y=LABELS, classes=np.array(["red", "green", "blue"]))
    return at / "a.npz", {}


def npz_compressed(at: Path) -> Built:
    np.savez_compressed(at / "a.npz", x_train=GREY[:80], y_train=LABELS[:80], x_test=GREY[80:], y_test=LABELS[80:])
    return at / "a.npz", {}


def npz_fortran(at: Path) -> Built:
    np.savez(at / "a.npz", x=np.asfortranarray(SIGNALS), y=LABELS)
    return at / "a.npz", {"kind": "signal", "seed": 3, "limit": 60}


def npz_big_endian(at: Path) -> Built:
    np.savez(at / "a.npz", images=SIGNALS.astype(">f4"), target=LABELS.astype(">i2"))
    return at / "a.npz", {}


def npz_features(at: Path) -> Built:
    np.savez(at / "a.npz", x=holes(FEATURES), y=FEATURES[:, 0] * 2)
    return at / "a.npz", {"task": "regression"}


def npz_missing_labels(at: Path) -> Built:
    y = LABELS.astype(float)
    y[::7] = np.nan
    np.savez(at / "a.npz", x=GREY, y=y)
    return at / "a.npz", {"test": 0.0}


def hdf5_chunked(at: Path) -> Built:
    with h5py.File(at / "a.h5", "w") as file:
        group = file.create_group("train")
        group.create_dataset("images", data=COLOUR, chunks=(7, 9, 7, 3), compression="gzip")
        group["labels"] = np.array(["a", "b", "c"], dtype=object)[LABELS].astype("S")
    return at / "a.h5", {"variables": {"x": "train/images", "y": "train/labels"}, "validation": 0.3}


def hdf5_features(at: Path) -> Built:
    with h5py.File(at / "a.h5", "w") as file:
        file["x"] = holes(FEATURES).astype(np.float32)
        file["y"] = LABELS
    return at / "a.h5", {"kind": "features"}


def netcdf_masked(at: Path) -> Built:
    with netCDF4.Dataset(str(at / "a.nc"), "w") as file:
        file.createDimension("n", 120)
        file.createDimension("f", 6)
        x = file.createVariable("x", "i2", ("n", "f"), fill_value=-1)
        x[:] = FEATURES.astype(np.int16)
        x[100, 2] = np.ma.masked
        file.createVariable("y", "i4", ("n",))[:] = LABELS
    return at / "a.nc", {}


def netcdf_scaled(at: Path) -> Built:
    with netCDF4.Dataset(str(at / "a.nc"), "w") as file:
        for name, size in (("n", 120), ("c", 2), ("l", 40)):
            file.createDimension(name, size)
        x = file.createVariable("x", "i2", ("n", "c", "l"), zlib=True, chunksizes=(11, 2, 40))
        x.scale_factor, x.add_offset = 0.01, 1.5
        x[:] = SIGNALS
        file.createVariable("y", "i4", ("n",))[:] = LABELS
    return at / "a.nc", {}


def netcdf_bytes(at: Path) -> Built:
    with netCDF4.Dataset(str(at / "a.nc"), "w") as file:
        for name, size in (("n", 120), ("h", 9), ("w", 7)):
            file.createDimension(name, size)
        file.createVariable("x", "u1", ("n", "h", "w"))[:] = GREY
        file.createVariable("y", "i4", ("n",))[:] = LABELS
    return at / "a.nc", {}


def frame() -> pd.DataFrame:
    colours = np.array(["red", "green", "blue", "?"])[RNG.integers(0, 4, 120)]
    weights = [f"{weight:.3f}" if number % 11 else "" for number, weight in enumerate(FEATURES[:, 0])]
    return pd.DataFrame(
        {"weight": weights, "colour": colours, "pieces": RNG.integers(0, 99, 120), "far": FEATURES[:, 1] * 1e-3 + 1e6}
    )


def csv_mixed(at: Path) -> Built:
    frame().assign(kind=np.array(["x", "y", "z"])[LABELS]).to_csv(at / "a.csv", index=True)
    return at / "a.csv", {"target": "kind"}


def csv_headless_with_test(at: Path) -> Built:
    rows = frame().assign(kind=np.array([" x", " y", " z"])[LABELS])
    rows[:80].to_csv(at / "a-train.csv", index=False, header=False, sep=";", decimal=",")
    rows[80:].assign(kind=rows.kind[80:] + ".").to_csv(at / "a-test.csv", index=False, header=False, sep=";")
    return at / "a-train.csv", {}


def csv_text_alone(at: Path) -> Built:
    words = np.array(["one", "two", "three"])
    table = pd.DataFrame({"first": words[LABELS], "second": words[RNG.integers(0, 3, 120)], "y": words[LABELS]})
    table.to_csv(at / "a.csv", index=False)  # no column of numbers tells the header
    return at / "a.csv", {}


def csv_signal(at: Path) -> Built:
    table = pd.DataFrame(SIGNALS[:, 0, :12], columns=[f"t{n}" for n in range(12)]).assign(y=LABELS)
    with gzip.open(at / "a.csv.gz", "wt") as file:
        table.to_csv(file, index=False)
    return at / "a.csv.gz", {"kind": "signal"}


def parquet(at: Path) -> Built:
    table = frame().assign(
        count=pd.array([None if n % 17 == 3 else n for n in range(120)], dtype="Int64"),
        day=pd.date_range("2026-01-01", periods=120).date,
        moment=pd.date_range("2026-01-01", periods=120, freq="h", tz="Europe/Berlin"),
        sort=pd.Categorical(np.array(["p", "q"])[LABELS % 2]),
        flag=LABELS == 1,
        y=np.array(["x", "y", "z"])[LABELS],
    )
    table.set_index(np.arange(120) * 2).to_parquet(at / "a.parquet", row_group_size=16)
    return at / "a.parquet", {}


def pictures(at: Path, images: Any, suffix: str = ".png") -> Path:
    for number, image in enumerate(images):
        place = at / "images" / "abc"[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}{suffix}")
    return at / "images"


def folder_grey(at: Path) -> Built:
    return pictures(at, GREY), {}


def folder_mixed(at: Path) -> Built:
    return pictures(at, [*GREY[:40], *COLOUR[40:]]), {}  # grey at first, colour later


def folder_deep(at: Path) -> Built:
    return pictures(at, GREY.astype(np.uint16) * 200), {}


def folder_sizes(at: Path) -> Built:
    whole = [image[: 5 + number % 4, : 4 + number % 3] for number, image in enumerate(COLOUR)]
    return pictures(at, whole, ".jpg"), {"resize": "8x6"}


def folder_parts(at: Path) -> Built:
    for part, images in (("train", COLOUR[:60]), ("val", COLOUR[60:90]), ("test", COLOUR[90:])):
        pictures(at / part, images)
        (at / part / "images").rename(at / f"now-{part}")
    (at / "data").mkdir()
    for part in ("train", "val", "test"):
        (at / f"now-{part}").rename(at / "data" / part)
    return at / "data", {}


MAKERS: Mapping[str, Callable[[Path], Built]] = {
    **{name: builtin(name) for name in ("digits", "iris", "diabetes")},
    **{
        made.__name__: made
        for made in (
            mapping, npz_stored, npz_compressed, npz_fortran, npz_big_endian, npz_features, npz_missing_labels,
            hdf5_chunked, hdf5_features, netcdf_masked, netcdf_scaled, netcdf_bytes, csv_mixed,
            csv_headless_with_test, csv_text_alone, csv_signal, parquet,
            folder_grey, folder_mixed, folder_deep, folder_sizes, folder_parts,
        )
    },
}  # fmt: skip
ENCODED = ("folder_grey", "folder_mixed", "folder_sizes", "folder_parts")


@pytest.fixture(params=list(MAKERS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Built:
    """A source of each kind, and the options that it is read with."""
    (tmp_path / "source").mkdir()
    return MAKERS[request.param](tmp_path / "source")


@pytest.fixture(params=ENCODED)
def images(request: pytest.FixtureRequest, tmp_path: Path) -> Built:
    """Folders of images that can stay encoded."""
    (tmp_path / "source").mkdir()
    return MAKERS[request.param](tmp_path / "source")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in many blocks what is small."""
    monkeypatch.setattr(lazy, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(csvfile, "CELLS", 1000)
    monkeypatch.setattr(folder, "FILES_AT_ONCE", 7)
