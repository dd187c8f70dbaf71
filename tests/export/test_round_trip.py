"""Every operation of every space that comes with detol, in each format: outputs as those of the trained network.

For each space as few of 200 samples as hold every operation that occurs in them: with all meta-parameters but widths
as Python, which is quick to write; in the formats that take seconds every kind with every value of each meta-parameter.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from detol.export.formats import Subject, make
from detol.export.portable import answers, portable
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain
from detol.search.recipe import Recipe
from detol.spaces import catalogue

KINDS = {"signal": "signal", "tabular": "features"}
WIDTHS = ("channels", "features", "dropout", "rate")
TOLERANCE = 1e-4


def operations(topology: Topology, *, whole: bool) -> Iterator[object]:
    for node in topology.nodes.values():
        if isinstance(node, Topology):
            yield from operations(node, whole=whole)
        else:
            pairs = [pair for pair in node.parameters if pair[0] not in WIDTHS]
            yield from [(node.kind, *pairs)] if whole else [(node.kind,), *((node.kind, pair) for pair in pairs)]


def covering(name: str, *, whole: bool) -> list[Topology]:
    """Return few samples of a space that together hold all operations of 200 of them, or all values of parameters."""
    space, rng = catalogue.load(name), np.random.default_rng(0)
    samples = [space.decode(space.sample(rng)) for _ in range(200)]
    held = [frozenset(operations(topology, whole=whole)) for topology in samples]
    left = frozenset[object]().union(*held)
    found = []
    while left:
        best = max(range(len(samples)), key=lambda index: len(held[index] & left))
        found.append(samples[best])
        left -= held[best]
    return found


def check(topology, data, weights, trial, folder, formats) -> None:
    packed = weights(topology, data)
    subject = Subject(trial(topology), data, portable(topology, packed, data), Recipe(), "a network")
    expected = answers(topology, packed, data)["validation"]
    folder.mkdir()
    for name in formats:
        format_ = make(name)
        format_.write(subject, folder)
        found = format_.load(folder)(data.validation.x)
        np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("name", catalogue.builtins())
def test_every_operation_of_every_space_in_each_format(name, dataset, weights, trial, tmp_path) -> None:
    data = dataset(KINDS.get(name, "image"))
    for number, topology in enumerate(covering(name, whole=False)):
        check(topology, data, weights, trial, tmp_path / str(number), ["onnx", "torch"])


@pytest.mark.parametrize("name", catalogue.builtins())
def test_every_operation_of_every_space_as_python(name, dataset, weights, trial, tmp_path) -> None:
    data = dataset(KINDS.get(name, "image"))
    for number, topology in enumerate(covering(name, whole=True)):
        check(topology, data, weights, trial, tmp_path / str(number), ["python"])


INNER = chain(op("conv", channels=6), op("squeeze_excite"))
ODD = {
    "a cell in a cell, used in two widths": (
        "image",
        chain(op("conv", channels=4), chain(INNER, op("norm")), op("conv", channels=6), chain(INNER, op("norm"))),
    ),
    "names that Python or torch have already": (
        "image",
        Topology(
            {
                "input": op("input"),
                "class": op("conv", channels=4),
                "train": op("conv", channels=4),
                "self": op("add"),
                "9 lives!": op("conv", channels=4, groups=2),
                "x": op("add"),
                "output": op("output"),
            },
            [
                ("input", "class"),
                ("class", "train"),
                ("class", "self"),
                ("train", "self"),
                ("train", "9 lives!"),
                ("self", "x"),
                ("9 lives!", "x"),
                ("x", "output"),
                ("class", "output"),
            ],
        ),
    ),
    "edges that count twice, a tensor concatenated with itself, projections": (
        "image",
        Topology(
            {
                "input": op("input"),
                "a": op("conv", channels=4, stride=2),
                "b": op("conv", channels=6, activation="silu", norm=False),
                "join": op("concat"),
                "c": op("global_pool", mode="max"),
                "output": op("output"),
            },
            [
                ("input", "a"),
                ("input", "a"),
                ("a", "b"),
                ("a", "b"),
                ("a", "join"),
                ("b", "join"),
                ("a", "join"),
                ("join", "c"),
                ("c", "output"),
                ("a", "output"),
                ("input", "output"),
            ],
        ),
    ),
    "many terms": (
        "signal",
        Topology(
            {
                "input": op("input"),
                **{f"a_long_name_of_a_layer_{n}": op("conv", channels=4, kernel=2 * n + 1) for n in range(5)},
                "join": op("concat"),
                "output": op("output"),
            },
            [
                *(("input", f"a_long_name_of_a_layer_{n}") for n in range(5)),
                *((f"a_long_name_of_a_layer_{n}", "join") for n in range(5)),
                *((f"a_long_name_of_a_layer_{n}", "output") for n in range(5)),
                ("join", "output"),
            ],
        ),
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_topologies_as_python(case, dataset, weights, trial, tmp_path) -> None:
    kind, topology = ODD[case]
    check(topology, dataset(kind), weights, trial, tmp_path / "out", ["python"])
    text = (tmp_path / "out" / "model.py").read_text()
    assert max(map(len, text.splitlines())) <= 120


def test_a_cell_used_in_two_widths_is_one_class(dataset, weights, trial, tmp_path) -> None:
    cell = chain(op("sepconv"), op("mbconv", expand=2), op("squeeze_excite", ratio=2))
    topology = chain(op("conv", channels=4), cell, op("conv", channels=10), cell, cell)
    check(topology, dataset("image"), weights, trial, tmp_path / "out", ["python"])
    text = (tmp_path / "out" / "model.py").read_text()
    assert text.count("class Cell(nn.Module)") == 1
    assert "class Cell2" not in text
    assert "nn.Conv2d(channels, 2 * channels, 1, bias=False)" in text
    assert "SqueezeExcite(channels, channels // 2)" in text
    assert "self.cell_4 = Cell(10)" in text


def test_an_operation_without_source_is_refused_by_name(dataset, weights, trial, tmp_path, monkeypatch) -> None:
    from detol.errors import TopologyError
    from detol.export import layers

    rest = {kind: writer for kind, writer in layers.WRITERS.items() if kind != "norm"}
    monkeypatch.setattr(layers, "WRITERS", rest)
    topology = chain(op("conv", channels=4), op("norm"))
    with pytest.raises(TopologyError, match="'norm' has no Python source.*leave out --format python"):
        check(topology, dataset("image"), weights, trial, tmp_path / "out", ["python"])
    check(topology, dataset("image"), weights, trial, tmp_path / "torch", ["torch"])  # does not need it
    assert isinstance(topology.nodes["2"], Operation)


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    torch.manual_seed(0)
