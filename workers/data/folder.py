"""Folders of images: a folder for each class, with or without ``train``, ``val`` and ``test`` above them."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data.lazy import Selection
from detol.workers.data.raw import Array, Part, Raw

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
PART_NAMES = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
GREY, DEEP, COLOUR = "L", "F", "RGB"  # Pillow's names of what images are read as
MODES = dict.fromkeys(("1", "L", "LA", "La"), GREY) | dict.fromkeys(("I", "F", "I;16", "I;16B", "I;16L", "I;16N"), DEEP)
MOST_THREADS, FILES_AT_ONCE = 16, 256


def read(path: Path, size: tuple[int, int] | None, *, lazy: bool = False) -> Raw:
    """Return the images of a folder as (n, 1 or 3, H, W), grey when all are, else RGB.

    Images of 8 bits are uint8; deeper grey ones float32. Decoding runs in threads: Pillow lets go of the interpreter
    meanwhile.

    Args:
        path: of the folder.
        size: (height, width) to scale to; without it all images must be of one size.
        lazy: whether images are decoded as they are wanted; now, only their headers are looked at.

    Raises:
        DataError: no classes, a class without images, unreadable images or images of different sizes.
    """
    folders, unused = _parts(path)
    notes = [f"not read: {', '.join(unused[:5])}{' ...' if len(unused) > 5 else ''}"] if unused else []
    listed = {role: _list(folder, notes) for role, folder in folders.items()}
    files = [file for pairs in listed.values() for file, _ in pairs]
    images: Any = Selection(_look(files, size, notes)) if lazy else _decode(files, size, notes)
    parts, start = {}, 0
    for role, pairs in listed.items():
        labels = np.array([label for _, label in pairs], dtype=object)
        within = slice(start, start + len(pairs))
        parts[role] = Part(images.take(np.arange(len(files))[within]) if lazy else images[within], labels)
        start += len(pairs)
    test_from = f"folder {folders['test'].name}" if "test" in folders else ""
    return Raw(path.resolve().name, "folder", parts, "image", None, "folder name", test_from, tuple(notes))


def size_of(resize: "str | Sequence[int] | None") -> tuple[int, int] | None:
    """Return (height, width) of a size as people give it, ``32x32``.

    Raises:
        DataError: it is none.
    """
    if resize is None:
        return None
    try:
        height, width = map(int, resize.lower().split("x")) if isinstance(resize, str) else map(index, resize)
    except (ValueError, TypeError):
        height = width = 0
    if height < 1 or width < 1:
        raise DataError(f"resize must be HEIGHTxWIDTH in pixels, such as 32x32, got {resize!r}")
    return height, width


def _parts(path: Path) -> tuple[dict[str, Path], list[str]]:
    inside = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = {role: entry for role, names in PART_NAMES.items() for entry in inside if entry.name.lower() in names}
    if "train" in found:
        return found, [entry.name for entry in inside if entry not in found.values()]
    if not inside:
        raise DataError(f"a folder of images needs a folder for each class: {path} has none; sort the images into some")
    return {"train": path}, []


def _list(folder: Path, notes: list[str]) -> list[tuple[Path, str]]:
    """Return files and class names, by class and name."""
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise DataError(f"a folder of images needs a folder for each class: {folder} has none; sort them into some")
    pairs, skipped = [], 0
    for entry in classes:
        within = [file for file in entry.rglob("*") if file.is_file() and not file.name.startswith(".")]
        files = sorted(file for file in within if file.suffix.lower() in SUFFIXES)
        skipped += len(within) - len(files)
        if not files:
            raise DataError(
                f"each class needs images: {entry} has none ({', '.join(sorted(SUFFIXES))}); fill or remove it"
            )
        pairs += [(file, entry.name) for file in files]
    if skipped:
        notes.append(f"{skipped} files below {folder.name} are no images: not read")
    return pairs


def _decode(files: Sequence[Path], size: tuple[int, int] | None, notes: list[str]) -> Array:
    """Return (n, C, H, W) of the files, decoded straight into one array."""
    with _image(files[0]) as image:
        mode, shape = MODES.get(image.mode, COLOUR), size or (image.height, image.width)
    out, modes = _decode_as(mode, shape, files, size)
    if mode == GREY and COLOUR in {MODES.get(found, COLOUR) for found in modes}:  # grey at first, colour later
        out, modes = _decode_as(COLOUR, shape, files, size)
    _tell(modes, files, size, notes)
    return out


def _look(files: Sequence[Path], size: tuple[int, int] | None, notes: list[str]) -> "Images":
    """Return the images of files, not decoded yet; reads their headers."""

    def header(start: int) -> list[tuple[str, int, int]]:
        found = []
        for file in files[start : start + FILES_AT_ONCE]:
            with _image(file) as image:
                found.append((image.mode, image.height, image.width))
        return found

    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        headers = [each for part in pool.map(header, range(0, len(files), FILES_AT_ONCE)) for each in part]
    first = headers[0][1:]
    odd = next((number for number, found in enumerate(headers) if found[1:] != first), None)
    if odd is not None and size is None:
        raise _sizes(files[odd], headers[odd][1:], files[0], first)
    modes = {mode for mode, _, _ in headers}
    _tell(modes, files, size, notes)
    mode = MODES.get(headers[0][0], COLOUR)
    if mode == GREY and COLOUR in {MODES.get(found, COLOUR) for found in modes}:
        mode = COLOUR
    return Images(files, mode, size or first, size)


class Images:
    """Images in files: a source of samples (n, 1 or 3, H, W) that are decoded as they are wanted, in threads.

    Args:
        files: one for each image.
        mode: Pillow's name of what they are read as.
        pixels: (height, width) of all.
        size: (height, width) to scale to, or ``None``.
    """

    grain = 1

    def __init__(self, files: Sequence[Path], mode: str, pixels: tuple[int, int], size: tuple[int, int] | None) -> None:
        self.files, self.mode, self.size, self._pixels = files, mode, size, pixels
        self.shape: tuple[int, ...] = (len(files), 3 if mode == COLOUR else 1, *pixels)
        self.dtype = np.dtype(np.float32 if mode == DEEP else np.uint8)

    def take(self, rows: Array) -> Array:
        """Return the images with these numbers, decoded."""
        return _decode_as(self.mode, self._pixels, [self.files[row] for row in rows.tolist()], self.size)[0]


def _tell(modes: set[str], files: Sequence[Path], size: tuple[int, int] | None, notes: list[str]) -> None:
    """Note what is done to images of these modes, or refuse them."""
    kinds = {MODES.get(found, COLOUR) for found in modes}
    if DEEP in kinds and len(kinds) > 1:
        raise DataError(
            f"all images need the same depth: some of {files[0].parent.parent} have 8 bits, others more; convert them"
        )
    if modes & {"LA", "La", "RGBA", "RGBa", "PA"}:
        notes.append("images have transparency: left out")
    if len(kinds) > 1:
        notes.append("some images are grey: read as RGB like the others")
    if size:
        notes.append(f"images scaled to {size[0]}x{size[1]}")


def _sizes(file: Path, size: tuple[int, int], first: Path, shape: tuple[int, int]) -> DataError:
    return DataError(
        f"all images need one size: {file} is {size[0]}x{size[1]}, {first} is {shape[0]}x{shape[1]}; scale them by"
        f" --resize {shape[0]}x{shape[1]}"
    )


def _decode_as(
    mode: str, shape: tuple[int, int], files: Sequence[Path], size: tuple[int, int] | None
) -> tuple[Array, set[str]]:
    """Return the images converted to one of Pillow's modes, and the modes they had."""
    channels = 3 if mode == COLOUR else 1
    out = np.empty((len(files), channels, *shape), np.float32 if mode == DEEP else np.uint8)

    def load(start: int) -> set[str]:
        modes = set()
        for number in range(start, min(start + FILES_AT_ONCE, len(files))):
            with _image(files[number]) as image:
                if not size and (image.height, image.width) != shape:
                    raise _sizes(files[number], (image.height, image.width), files[0], shape)
                out[number] = pixels(image, mode, size)
                modes.add(image.mode)
        return modes

    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        found = list(pool.map(load, range(0, len(files), FILES_AT_ONCE)))
    return out, set().union(*found)


def pixels(image: Any, mode: str, size: tuple[int, int] | None) -> Array:
    """Return the values (1 or 3, H, W) of an image read as one of Pillow's modes, scaled to ``size`` where given."""
    ready = image.convert(mode)
    if size:
        ready = ready.resize((size[1], size[0]))  # Pillow's sizes are (width, height)
    values = np.asarray(ready)
    return values[None] if mode != COLOUR else np.moveaxis(values, -1, 0)


@contextmanager
def _image(file: Path) -> Iterator[Any]:
    """Open an image; whatever Pillow raises, then or while decoding, names the file."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise DataError(f"each image must be readable: {file}: {_line(error)}; replace or remove it") from None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
