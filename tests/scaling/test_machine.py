import json
import math

import pytest

from detol.errors import UsageError
from detol.scaling import machine as machines
from detol.scaling.link import Link
from detol.scaling.machine import Machine, cache, cached, read, write
from detol.scaling.presets import PRESETS, guessed, preset
from detol.scaling.rates import KINDS, Rate

from .conftest import machine_of


@pytest.mark.parametrize("made", [*PRESETS.values(), machine_of(across=Link(1e8), per_host=4, crowd=(1.0, 1.25))])
def test_a_machine_is_the_same_after_a_file(made, tmp_path):
    write(made, tmp_path / "deep" / "machine.json")
    assert read(tmp_path / "deep" / "machine.json") == made
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["machine.json"]


def test_rates_that_are_left_out_are_the_first_one():
    made = Machine.from_dict(
        {"name": "m", "device": "cpu", "rates": {"linear": {"peak": 5.0}}, "link": {"bandwidth": 1}}
    )
    assert made.rates == dict.fromkeys(KINDS, Rate(5.0))
    assert math.isinf(made.storage)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed": 1}, "unknown key 'speed'"),
        ({"rates": {}}, "is not a machine"),
        ({"rates": {"linear": {"peak": 0}}}, "peak > 0"),
        ({"link": {"bandwidth": -1}}, "bandwidth > 0"),
        ({"link": {"width": 1}}, "is not a machine"),
        ({"layer": -1e-3}, "layer is in seconds"),
        ({"overlap": 2}, "overlap is in"),
        ({"crowd": [0.5]}, "slowdowns >= 1"),
        ({"storage": 0}, "storage and files are > 0"),
        ({"norm": float("nan")}, "norm is in seconds"),
        ({"crowd": [1.0, float("nan")]}, "slowdowns >= 1"),
        ({"ranks": float("nan")}, "ranks is of type int"),
        ({"ranks": True}, "ranks is of type int"),
        ({"device": "tpu"}, "device is cpu or cuda"),
        ({"queued": "no"}, "queued is of type bool"),
        ({"link": {"bandwidth": 1, "latency": float("nan")}}, "latency >= 0"),
        ({"rates": {"linear": {"peak": 1, "inner": float("nan")}}}, "half sizes >= 0"),
        ({"format": 2}, "has format 2, known is 1"),
    ],
)
def test_a_file_that_is_no_machine_is_refused_in_one_line(change, message, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**machine_of().as_dict(), **change}))
    with pytest.raises(UsageError, match=message) as error:
        read(path)
    assert "\n" not in str(error.value)


def test_a_missing_key_or_file_or_no_json_is_refused(tmp_path):
    for name in ("link", "rates", "name"):
        values = machine_of().as_dict()
        del values[name]
        with pytest.raises(UsageError, match=f"lacks '{name}'"):
            Machine.from_dict(values)
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "nowhere.json")
    for text, message in (("{", "is not JSON"), ("[1]", "holds no machine")):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(UsageError, match=message):
            read(tmp_path / "bad.json")


def test_the_cache_is_of_host_device_ranks_precision_and_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places = {cache(*key) for key in (("cpu", 2), ("cpu", 4), ("cuda", 2), ("cuda", 2, "bfloat16"))}
    assert len(places) == 4
    monkeypatch.setattr(machines, "version", lambda _: "99.0")
    assert cache("cpu", 2) not in places
    monkeypatch.setattr(machines.platform, "node", lambda: "other/host")
    assert "other-host" in cache("cpu", 2).name
    assert cached("cpu", 2) is None
    write(machine_of(), cache("cpu", 2))
    assert cached("cpu", 2) == machine_of()
    cache("cpu", 2).write_text("{")
    assert cached("cpu", 2) is None  # it is measured again


def test_presets_by_name():
    assert preset("fdr-k80").link.bandwidth == pytest.approx(4 * 14.0625e9 * 64 / 66 / 8, rel=0.01)
    assert guessed(preset("guess-cpu"))
    assert not guessed(preset("fdr-k80"))
    with pytest.raises(UsageError, match="did you mean fdr-k80"):
        preset("fdr-k8")
    for made in PRESETS.values():
        made.check()
        assert made.sources
