"""Packed files at the command line: packing, verifying, searching on them, and what is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

QUICK = ["--space", "tiny", "--trials", "3", "--epochs", "1", "--stop", "none", "--seed", "5"]
QUICK += ["--executor", "inline", "--tracking", "off", "--json"]
Call = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("own_directory")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep verdicts on packed files apart from those of whoever runs the tests."""
    monkeypatch.setenv("DETOL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(60):
        place = tmp_path / "images" / ("dark", "bright")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = (40 + 160 * (number % 2) + rng.integers(-30, 30, (12, 12))).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:02}.jpg")
    return tmp_path / "images"


def done(found: tuple[int, str, str]) -> Any:
    code, out, err = found
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize("flags", [[], ["--encoded"]], ids=["decoded", "encoded"])
def test_a_search_on_a_packed_file_shares_the_results_of_its_source(
    call: Call, pictures: Path, flags: list[str]
) -> None:
    made = done(call("data", "pack", pictures, "--to", "a.pack", *flags, "--json"))
    source = done(call("data", "describe", pictures, "--json"))
    packed = done(call("data", "describe", "a.pack", "--json"))
    assert made["digest"] == source["digest"] == packed["digest"]
    assert made["encoded"] is bool(flags)
    assert (packed["form"], packed["packed_from"]) == ("pack", str(pictures))
    assert done(call("data", "verify", "a.pack", "--json"))["hash"] == made["hash"]

    first = done(call("search", "--data", "a.pack", *QUICK, "--name", "packed"))
    again = done(call("search", "--data", pictures, *QUICK, "--name", "unpacked"))
    assert (first["trained"], again["trained"], again["reused"]) == (3, 0, 3)
    assert again["best"]["digest"] == first["best"]["digest"]
    assert again["test"] == first["test"]

    manifest = done(call("export", "packed", "--to", "out", "--with-data", "--format", "python", "--json"))
    assert manifest["data"]["digest"] == made["digest"]
    assert manifest["score"]["recomputed"] == pytest.approx(manifest["score"]["recorded"])
    with np.load("out/data.npz") as arrays:
        assert arrays["x_train"].shape == (packed["splits"]["train"], 1, 12, 12)
    assert call("report", "packed", "--to", "report.html")[0] == 0


def refused(call: Call, *arguments: object) -> str:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert err.startswith("detol: ")
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    return err


@pytest.mark.parametrize("command", ["search", "describe", "verify"])
@pytest.mark.parametrize("damage", ["truncated", "another", "newer", "header"])
def test_damaged_files(call: Call, tmp_path: Path, command: str, damage: str) -> None:
    done(call("data", "pack", "iris", "--to", "a.pack", "--json"))
    path = tmp_path / "a.pack"
    text = path.read_bytes()
    spoilt, told = {
        "truncated": (text[:-9], "cut off"),
        "another": (b"\x89HDF\r\n" + text[6:], "begins with DETOLPCK"),
        "newer": (text[:8] + b"\x09" + text[9:], "version 9"),
        "header": (text[:-5] + b"#####", "hash"),
    }[damage]
    path.write_bytes(spoilt)
    arguments = ["search", "--data", "a.pack", *QUICK] if command == "search" else ["data", command, "a.pack"]
    line = refused(call, *arguments)
    assert told in line
    assert "a.pack" in line


@pytest.mark.parametrize("command", ["search", "describe", "verify"])
def test_wrong_content_is_refused_before_it_is_used(call: Call, tmp_path: Path, command: str) -> None:
    done(call("data", "pack", "iris", "--to", "a.pack", "--json"))
    text = bytearray((tmp_path / "a.pack").read_bytes())
    text[4096] ^= 1
    (tmp_path / "a.pack").write_bytes(text)
    arguments = ["search", "--data", "a.pack", *QUICK] if command == "search" else ["data", command, "a.pack"]
    line = refused(call, *arguments)
    assert "train.x of a packed file must have the hash" in line
    assert "copy it or pack the data again" in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pack", "iris", "--to", "a.bin"], "must end in .pack"),
        (["pack", "iris", "--to", "a.pack", "--encoded"], "only a folder of images"),
        (["pack", "iris", "--to", "a.pack", "--set", "data.kinds=signal"], "did you mean kind"),
        (["pack", "iris", "--to", "a.pack", "--set", "stop.margin=1"], "data.KEY=VALUE alone, got stop.margin"),
        (["pack", "iri", "--to", "a.pack"], "did you mean iris"),
        (["pack", "iris"], "--to"),
        (["verify", "b.pack"], "b.pack"),
        (["describe", "b.pack"], "b.pack"),
    ],
)
def test_wrong_arguments(call: Call, arguments: list[str], told: str) -> None:
    assert told in refused(call, "data", *arguments)


def test_options_are_those_of_the_source(call: Call) -> None:
    known = done(call("data", "describe", "diabetes", "--set", "data.seed=4", "--json"))
    made = done(call("data", "pack", "diabetes", "--to", "a.pack", "--set", "data.seed=4", "--json"))
    assert made["digest"] == known["digest"]
    assert done(call("data", "describe", "a.pack", "--set", "data.seed=4", "--json"))["digest"] == known["digest"]
    assert "has seed 4, got 5" in refused(call, "data", "describe", "a.pack", "--set", "data.seed=5")
    code, out, _ = call("data", "pack", "iris", "--to", "a.pack", "--replace")
    assert code == 0
    assert "splits:        train: 96, validation: 24, test: 30" in out
