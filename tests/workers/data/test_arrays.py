import io
import zipfile
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from detol.errors import DataError
from detol.workers.data import read

rng = np.random.default_rng(0)
X = rng.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
Y = np.arange(40) % 4
FORMS = ("npz", "h5", "nc")


def save(path: Path, **arrays: Any) -> Path:
    """Write arrays into a file of the form that its ending tells; ``a__b`` is ``b`` in the group ``a``."""
    if path.suffix == ".npz":
        np.savez(path, **{name.replace("__", "/"): values for name, values in arrays.items()})
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                values = values.astype(h5py.string_dtype()) if values.dtype.kind == "U" else values
                file[name.replace("__", "/")] = values
    else:
        with netCDF4.Dataset(str(path), "w") as file:
            for name, values in arrays.items():
                group, _, last = name.rpartition("__")
                home = file.createGroup(group) if group else file
                axes = [f"{name}_{axis}" for axis in range(values.ndim)]
                for axis, size in zip(axes, values.shape, strict=True):
                    home.createDimension(axis, size)
                text = values.dtype.kind == "U"
                variable = home.createVariable(last, str if text else values.dtype, axes)
                variable[:] = values.astype(object) if text else values
    return path


@pytest.mark.parametrize("form", FORMS)
def test_x_and_y(tmp_path: Path, form: str) -> None:
    data = read(save(tmp_path / f"set.{form}", x=X, y=Y))
    assert (data.name, data.kind, data.task) == ("set", "image", "classification")
    assert (data.shape, data.outputs, data.classes) == ((3, 6, 5), 4, ("0", "1", "2", "3"))
    assert data.train.x.dtype == np.uint8
    assert {name: len(split) for name, split in data.splits().items()} == {"train": 26, "validation": 6, "test": 8}
    rows = {sample.tobytes(): label for sample, label in zip(np.moveaxis(X, -1, 1), Y, strict=True)}
    for split in data.splits().values():  # each sample kept its label
        assert [rows.pop(sample.tobytes()) for sample in split.x] == split.y.tolist()
    assert not rows


@pytest.mark.parametrize("form", FORMS)
def test_the_digest_is_of_the_content_not_the_file(tmp_path: Path, form: str) -> None:
    data = read(save(tmp_path / f"other.{form}", x=X, y=Y))
    assert data.digest == read({"x": X, "y": Y}).digest
    changed = X.copy()
    changed[0, 0, 0, 0] ^= 1
    assert read({"x": changed, "y": Y}).digest != data.digest


@pytest.mark.parametrize("form", FORMS)
def test_given_splits_stay(tmp_path: Path, form: str) -> None:
    arrays = {
        "x_train": X[:20],
        "y_train": Y[:20],
        "x_val": X[20:28],
        "y_val": Y[20:28],
        "x_test": X[28:],
        "y_test": Y[28:],
    }
    data = read(save(tmp_path / f"set.{form}", **arrays))
    assert data.test is not None
    np.testing.assert_array_equal(data.train.x, np.moveaxis(X[:20], -1, 1))
    np.testing.assert_array_equal(data.validation.y, Y[20:28])
    np.testing.assert_array_equal(data.test.y, Y[28:])
    assert data.describe()["test_from"] == "given by the source"


@pytest.mark.parametrize("form", FORMS)
def test_named_variables(tmp_path: Path, form: str) -> None:
    names = np.array(["ant", "bee", "cat", "dog"])
    path = save(tmp_path / f"set.{form}", raw__pictures=X, raw__kinds=Y, other=np.zeros(3), names=names)
    data = read(path, variables={"x": "raw/pictures", "y": "raw/kinds", "classes": "names"})
    assert data.classes == ("ant", "bee", "cat", "dog")
    assert read(path, variables={"x": "raw/pictures"}, target="raw/kinds").outputs == 4
    with pytest.raises(DataError, match=r"no 'x', it holds .*raw/pictures \(40, 6, 5, 3\).*--variables x=NAME"):
        read(path)
    with pytest.raises(DataError, match="did you mean raw/pictures"):
        read(path, variables={"x": "raw/picture"})
    with pytest.raises(DataError, match="unknown role of a variable 'z'"):
        read(path, variables={"z": "other"})


@pytest.mark.parametrize("form", FORMS)
def test_text_labels(tmp_path: Path, form: str) -> None:
    data = read(save(tmp_path / f"set.{form}", x=X, y=np.array(["no", "yes"] * 20)))
    assert data.classes == ("no", "yes")


@pytest.mark.parametrize("form", FORMS)
def test_missing_features_are_imputed(tmp_path: Path, form: str) -> None:
    x = rng.normal(size=(40, 3))
    x[::5, 1] = np.nan
    data = read(save(tmp_path / f"set.{form}", x=x, y=Y))
    assert data.shape == (4,)  # and a flag
    assert all(np.isfinite(split.x).all() for split in data.splits().values())
    assert data.describe()["missing"] == 8


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_images_must_be_finite(tmp_path: Path, form: str, value: float) -> None:
    x = X.astype(np.float32)
    x[:, 2, 2, 0] = value
    with pytest.raises(DataError, match="values of images must be finite: 26 of 26 samples of the train split"):
        read(save(tmp_path / f"set.{form}", x=x, y=Y))


@pytest.mark.parametrize("form", FORMS)
def test_lengths_must_match(tmp_path: Path, form: str) -> None:
    with pytest.raises(DataError, match="40 samples in x and 39 in y"):
        read(save(tmp_path / f"set.{form}", x=X, y=Y[:39]))


@pytest.mark.parametrize("form", FORMS)
def test_samples_without_labels(tmp_path: Path, form: str) -> None:
    with pytest.raises(DataError, match=r"no 'y', it holds x \(40"):
        read(save(tmp_path / f"set.{form}", x=X))
    with pytest.raises(DataError, match="no 'y_test'"):
        read(save(tmp_path / f"set2.{form}", x=X, y=Y, x_test=X))


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files(tmp_path: Path, form: str) -> None:
    whole = save(tmp_path / f"set.{form}", x=rng.normal(size=(400, 30)), y=np.arange(400) % 2).read_bytes()
    for name, content in (("cut", whole[: len(whole) // 2]), ("text", b"hello, world\n" * 20)):
        path = tmp_path / f"{name}.{form}"
        path.write_bytes(content)
        with pytest.raises(DataError, match="must be a whole") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = save(tmp_path / "set.npz", x=X, y=Y)
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="whole .npz archive"):
        read(path)


def test_nothing_pickled_is_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (trap,))

    np.savez(tmp_path / "set.npz", x=np.array([Bomb()] * 3, dtype=object), y=Y[:3], allow_pickle=True)
    with pytest.raises(DataError, match="pickled objects are not loaded"):
        read(tmp_path / "set.npz")
    assert not trap.exists()


def test_only_what_is_needed_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "set.npz", x=X, y=Y)
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("junk.npy", buffer.getvalue())
    assert read(path).outputs == 4


def test_packed_netcdf_values_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "set.nc"
    with netCDF4.Dataset(str(path), "w") as file:
        file.createDimension("n", 40)
        file.createDimension("f", 3)
        packed = file.createVariable("x", "i2", ("n", "f"), fill_value=-999)
        packed.scale_factor, packed.add_offset = 0.5, 10.0
        values = np.ma.masked_array(np.tile([10.5, 11.0, 20.0], (40, 1)), mask=False)
        values[:20, 1] = np.ma.masked
        packed[:] = values
        file.createVariable("y", "i4", ("n",))[:] = Y
    data = read(path, kind="features")
    np.testing.assert_allclose(np.unique(data.train.x[:, 0]), [10.5])
    assert data.describe()["missing"] == 20


def test_fields_of_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["x"] = np.zeros(5, dtype=[("a", "f4"), ("b", "f4")])
        file["y"] = np.zeros(5)
    with pytest.raises(DataError, match="plain array, it has fields"):
        read(tmp_path / "set.h5")
