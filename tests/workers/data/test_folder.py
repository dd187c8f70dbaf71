from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from detol.errors import DataError
from detol.workers.data import read

rng = np.random.default_rng(0)


def pixels(mode: str, size: tuple[int, int]) -> Any:
    shape = {"L": size, "RGB": (*size, 3), "RGBA": (*size, 4), "I;16": size}[mode]
    deep = mode == "I;16"
    return rng.integers(0, 60000 if deep else 256, shape).astype(np.uint16 if deep else np.uint8)


def fill(
    root: Path,
    classes: tuple[str, ...] = ("cat", "dog"),
    count: int = 8,
    mode: Callable[[int], str] = lambda number: "RGB",
    size: tuple[int, int] = (6, 5),
) -> dict[bytes, str]:
    """Write PNG files by class; return the class of each image by its bytes."""
    written = {}
    for name in classes:
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            values = pixels(mode(number), size)
            Image.fromarray(values).save(root / name / f"{number:02}.png")
            written[values.tobytes()] = name
    return written


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    written = fill(tmp_path)
    data = read(tmp_path)
    assert (data.kind, data.shape, data.classes) == ("image", (3, 6, 5), ("cat", "dog"))
    assert data.train.x.dtype == np.uint8
    for split in data.splits().values():
        for image, label in zip(split.x, split.y, strict=True):
            assert written.pop(np.moveaxis(image, 0, -1).tobytes()) == data.classes[label]
    assert not written


def test_parts(tmp_path: Path) -> None:
    for part, count in (("train", 6), ("val", 3), ("Test", 2)):
        fill(tmp_path / part, count=count)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "old").mkdir()
    data = read(tmp_path)
    assert data.describe()["splits"] == {"train": 12, "validation": 6, "test": 4}
    assert data.describe()["test_from"] == "folder Test"
    assert data.describe()["notes"] == ["not read: old", "1 files below train are no images: not read"]


def test_grey_stays_one_channel(tmp_path: Path) -> None:
    fill(tmp_path, mode=lambda number: "L")
    assert read(tmp_path).shape == (1, 6, 5)


@pytest.mark.parametrize("first", ["L", "RGB"])
def test_some_grey_become_colour(tmp_path: Path, first: str) -> None:
    fill(tmp_path, mode=lambda number: first if number == 0 else "L" if number % 2 else "RGB")
    data = read(tmp_path)
    assert data.shape == (3, 6, 5)
    assert any("some images are grey" in note for note in data.describe()["notes"])
    greys = [image for image in data.train.x if (image[0] == image[1]).all() and (image[1] == image[2]).all()]
    assert 0 < len(greys) < len(data.train)


def test_deep_images_are_float32(tmp_path: Path) -> None:
    written = fill(tmp_path, mode=lambda number: "I;16")
    data = read(tmp_path)
    assert data.train.x.dtype == np.float32
    assert data.train.x[0].astype(np.uint16).tobytes() in written


def test_depths_are_not_mixed(tmp_path: Path) -> None:
    fill(tmp_path, mode=lambda number: "I;16" if number else "L")
    with pytest.raises(DataError, match="same depth"):
        read(tmp_path)


def test_transparency_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path, mode=lambda number: "RGBA")
    data = read(tmp_path)
    assert data.shape == (3, 6, 5)
    assert data.describe()["notes"] == ["images have transparency: left out"]


def test_ragged_sizes_name_the_file_and_the_remedy(tmp_path: Path) -> None:
    fill(tmp_path)
    Image.fromarray(pixels("RGB", (7, 9))).save(tmp_path / "dog" / "03.png")
    with pytest.raises(DataError, match=r"dog/03.png is 7x9, .*cat/00.png is 6x5; scale them by --resize 6x5"):
        read(tmp_path)
    for size in ("4x8", (4, 8)):
        data = read(tmp_path, resize=size)
        assert data.shape == (3, 4, 8)
        assert "images scaled to 4x8" in data.describe()["notes"]


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_unreadable_images(tmp_path: Path, content: bytes | None) -> None:
    fill(tmp_path, size=(40, 40))
    path = tmp_path / "cat" / "05.png"
    path.write_bytes(path.read_bytes()[:900] if content is None else content)
    with pytest.raises(DataError, match=r"each image must be readable: .*cat/05.png: .*replace or remove") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs a folder for each class"):
        read(tmp_path)
    fill(tmp_path)
    (tmp_path / "bird").mkdir()
    with pytest.raises(DataError, match="bird has none"):
        read(tmp_path)


def test_one_class(tmp_path: Path) -> None:
    fill(tmp_path, classes=("cat",), count=12)
    with pytest.raises(DataError, match="two classes: all of 'folder name' are 'cat'"):
        read(tmp_path)


@pytest.mark.parametrize("resize", ["32", "axb", "0x4", (1, 2, 3)])
def test_sizes_that_are_none(tmp_path: Path, resize: Any) -> None:
    with pytest.raises(DataError, match="resize must be HEIGHTxWIDTH"):
        read(tmp_path, resize=resize)
