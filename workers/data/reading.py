"""Reading any source into a :class:`~detol.workers.data.dataset.Dataset`."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from detol.errors import DataError
from detol.workers.data import builtin, folder, packed
from detol.workers.data.assemble import assemble
from detol.workers.data.dataset import Dataset
from detol.workers.data.options import checked
from detol.workers.data.raw import Array, Raw
from detol.workers.data.sink import Sink
from detol.workers.data.spool import Spool

SUFFIXES: Mapping[str, str] = {
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".data": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".pack": "pack",
}


def read(
    source: "str | os.PathLike[str] | Mapping[str, Array]",
    *,
    target: str | int | None = None,
    kind: str = "auto",
    header: str = "auto",
    variables: Mapping[str, str] | None = None,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    limit: int | None = None,
    task: str = "auto",
    resize: str | tuple[int, int] | None = None,
    copy: bool = False,
    shuffle: str = "auto",
) -> Dataset:
    """Read, split and measure a data set. Writes nothing; needs neither torch nor Ray.

    Args:
        source: ``digits``, ``iris``, ``wine``, ``breast_cancer`` or ``diabetes``; a path to ``.npz``, ``.csv`` (also
            ``.tsv``, ``.data``, gzipped), ``.parquet``, ``.h5``, ``.nc``, a folder of images in a folder for each
            class, or a ``.pack`` by ``detol data pack``; or a mapping of arrays, named as in an ``.npz``.
        target: the labels: name of a column or variable, ``last``, or an index of a column.
        kind: ``image``, ``signal`` or ``features``; ``auto`` follows :func:`detol.workers.data.layout.understand`;
            tables are features.
        header: whether a CSV file has one: ``auto``, ``yes`` or ``none``.
        variables: from role (x, y, x_train, y_train, x_validation, y_validation, x_test, y_test, classes) to the name
            in an ``.npz``, HDF5 or NetCDF file.
        validation: share of the training rows that validate, in (0, 1), where the source has no such part.
        test: share of the rows held out for the test, in [0, 1), where the source has no test part. These rows do not
            depend on ``seed`` or ``limit``.
        seed: of the validation split and of the draw by ``limit``, >= 0.
        limit: most samples for training and validation together, drawn with the classes' shares; None for all.
        task: ``classification``, ``regression`` or ``auto`` (see :func:`detol.workers.data.labels.encode`).
        resize: (height, width) or ``HxW`` to which the images of a folder are scaled.
        copy: whether a packed file is copied once to each node and read there, for slow shared file systems.
        shuffle: how training mixes the samples of a packed file: ``whole``, or by ``blocks`` that are read in one go;
            ``auto``: by blocks where the file has more than half of the memory.

    A packed file was split when it was packed: options that would read it otherwise are refused.

    Raises:
        DataError: whatever is wrong with the source or the arguments, in one line with the remedy.
    """
    options = {
        "target": target,
        "kind": kind,
        "header": header,
        "variables": variables,
        "validation": validation,
        "test": test,
        "seed": seed,
        "limit": limit,
        "task": task,
        "resize": resize,
    }
    given = checked({**options, "copy": copy, "shuffle": shuffle})
    copy, shuffle = given.pop("copy"), given.pop("shuffle")
    if packed.is_pack(source):
        return packed.read(Path(str(source)), given, copy=copy, shuffle=shuffle)
    if copy or shuffle != "auto":
        what = "copy" if copy else "shuffle"
        raise DataError(f"{what} is for packed files, {source} is none: pack it by detol data pack")
    return streamed(source, None, None, **given)


def streamed(
    source: "str | os.PathLike[str] | Mapping[str, Array]",
    kept: Spool | None,
    sink: Sink | None,
    *,
    target: str | int | None = None,
    kind: str = "auto",
    header: str = "auto",
    variables: Mapping[str, str] | None = None,
    validation: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
    limit: int | None = None,
    task: str = "auto",
    resize: str | tuple[int, int] | None = None,
) -> Dataset:
    """Read, split and measure a data set whose samples go to a ``sink`` block by block; without one, as :func:`read`.

    Options are as :func:`~detol.workers.data.options.checked` returns them.

    Args:
        source: as for :func:`read`, packed files apart. Samples of built-in sets and of mappings are in memory anyway.
        kept: what the source needs while it is read.
        sink: takes the samples.
        target: as for :func:`read`, and all that follow.
        kind: of the data.
        header: of a CSV.
        variables: by role.
        validation: share.
        test: share.
        seed: of the split.
        limit: of samples.
        task: of the data.
        resize: of images.

    Raises:
        DataError: whatever is wrong with the source, in one line.
    """
    raw = _raw(source, target, header, variables, folder.size_of(resize), kept)
    about = {"source": "arrays" if isinstance(source, Mapping) else str(source)}
    shares: dict[str, Any] = {"validation": validation, "test": test, "seed": seed, "limit": limit}
    return assemble(raw, kind=kind, task=task, about=about, sink=sink, **shares)


def _raw(
    source: "str | os.PathLike[str] | Mapping[str, Array]",
    target: str | int | None,
    header: str,
    variables: Mapping[str, str] | None,
    size: tuple[int, int] | None,
    kept: Spool | None,
) -> Raw:
    from detol.workers.data import arrays

    if isinstance(source, Mapping):
        held = {name: np.asarray(values) for name, values in source.items()}
        shapes = {name: values.shape for name, values in held.items()}
        return arrays.read("arrays", "arrays", shapes, held.__getitem__, variables, target)
    if str(source) in builtin.NAMES:
        return builtin.read(str(source))
    path = Path(source)
    if not str(source) or not path.exists():
        raise _absent(path, str(source))
    if path.is_dir():
        return folder.read(path, size, lazy=kept is not None)
    form = _form(path)
    if size is not None:
        raise DataError(f"resize is for a folder of images, {path} is not one; scale the images before saving them")
    if not path.stat().st_size:
        raise DataError(f"a data set needs samples: {path} is empty (0 bytes)")
    if variables and form in ("csv", "parquet"):
        raise DataError(f"variables are for .npz, HDF5 and NetCDF, {path} is a table; name its target by --target")
    return _file(path, form, target, header, variables, kept)


def _file(
    path: Path,
    form: str,
    target: str | int | None,
    header: str,
    variables: Mapping[str, str] | None,
    kept: Spool | None,
) -> Raw:
    if form == "npz":
        from detol.workers.data import npz

        return npz.read(path, variables, target, kept)
    if form == "hdf5":
        from detol.workers.data import hdf5

        return hdf5.read(path, variables, target, kept)
    if form == "netcdf":
        from detol.workers.data import netcdf

        return netcdf.read(path, variables, target, kept)
    from detol.workers.data import table

    return table.read(path, form, target, header, kept)


def _form(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]
    form = SUFFIXES.get(last)
    if form is None or (suffixes[-1] == ".gz" and form != "csv"):
        raise DataError(
            f"the format is told by the ending: {path.name!r} has none of {', '.join(SUFFIXES)} (tables also .gz);"
            " rename or convert the file"
        )
    return form


def _absent(path: Path, source: str) -> DataError:
    inside = path.parent.iterdir() if path.parent.is_dir() else iter(())
    beside = [entry.name for entry in inside if not entry.name.startswith(".")]
    near = difflib.get_close_matches(path.name, [*beside, *builtin.NAMES], n=3, cutoff=0.6)
    remedy = f"did you mean {', '.join(near)}?" if near else f"give a path, or one of {', '.join(builtin.NAMES)}"
    return DataError(f"a data set must be there: {source!r} is not; {remedy}")
