"""Drawings: well-formed, self-contained, complete, escaped, nothing overlaps."""

from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.draw import mermaid, svg
from detol.graph.layout import GAP, layered
from detol.graph.ops import Operation, op
from detol.graph.topology import Topology, chain

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_any_topology_is_drawn_completely(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies())
    drawing = svg(topology)
    tree = ElementTree.fromstring(drawing)
    titles = [element.text or "" for element in tree.iter(f"{SVG}title")]
    for name in topology.nodes:
        assert any(title.startswith(f"{name}: ") for title in titles)
    width, height = float(tree.attrib["width"]), float(tree.attrib["height"])
    assert 0 < width < 3000
    assert 0 < height < 3000
    assert svg(topology) == drawing
    assert mermaid(topology).startswith("flowchart TD\n")


@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_boxes_do_not_overlap_and_edges_go_down(
    topologies: Callable[..., st.SearchStrategy[Topology]], data: st.DataObject
) -> None:
    topology = data.draw(topologies(12))
    sizes = {name: (40.0 + 7 * len(name), 30.0) for name in topology.nodes}
    found = layered(sizes, topology.edges, topology.order)
    boxes = list(found.centres.items())
    for number, (one, (x, y)) in enumerate(boxes):
        assert x - sizes[one][0] / 2 >= -0.01
        assert x + sizes[one][0] / 2 <= found.width + 0.01
        for other, (u, v) in boxes[number + 1 :]:
            apart = abs(x - u) >= (sizes[one][0] + sizes[other][0]) / 2 + GAP - 0.01
            assert apart or abs(y - v) >= 30
    for points in found.routes.values():
        heights = [y for _, y in points]
        assert heights == sorted(heights)


def test_crossings_that_can_go_do_go() -> None:
    """Two straight branches written crosswise."""
    order = ["i", "a", "b", "d", "c", "o"]
    edges = [("i", "a"), ("i", "b"), ("a", "c"), ("b", "d"), ("c", "o"), ("d", "o")]
    x = {name: place[0] for name, place in layered(dict.fromkeys(order, (40.0, 30.0)), edges, order).centres.items()}
    assert (x["a"] - x["b"]) * (x["c"] - x["d"]) > 0
    assert x["i"] == pytest.approx(x["o"])


def test_cells_are_drawn_once() -> None:
    cell = chain(op("conv"), op("pool"))
    found = texts(svg(chain(cell, cell, chain(op("conv"), op("pool")), chain(cell))))
    assert found.count("cell A \u00d74") == 1
    assert found.count("conv") == 1
    assert found.count("cell A") == 4
    assert found.count("cell B") == 2


def test_multiplicities_and_parts_are_marked() -> None:
    topology = Topology(
        {"input": op("input"), "a": op("conv"), "c": op("concat"), "output": op("output")},
        [("input", "a"), ("input", "a"), ("a", "c"), ("input", "c"), ("a", "c"), ("c", "output")],
    )
    found = texts(svg(topology))
    assert {"\u00d72", "1,3", "2"} <= set(found)
    assert 'n1 -->|"1,3"| n2' in mermaid(topology)


def test_dead_nodes_are_faded() -> None:
    nodes: dict[str, Operation | Topology] = {
        "input": op("input"),
        "a": op("conv"),
        "z": op("zero"),
        "output": op("output"),
    }
    topology = Topology(nodes, [("input", "a"), ("a", "output"), ("input", "z"), ("z", "output")])
    assert svg(topology).count('<g class="n dead"') == 1
    assert svg(chain(op("zero"))).count('<g class="n dead"') == 3


NASTY = '"><script>alert(1)</script>&\x00\ud800|]'


def test_text_is_escaped() -> None:
    topology = Topology(
        {"input": op("input"), NASTY: op("symbol", name=NASTY, value="<b>"), "output": op("output")},
        [("input", NASTY), (NASTY, "output")],
    )
    drawing = svg(topology)
    assert not [e for e in ElementTree.fromstring(drawing).iter() if "script" in e.tag]
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in mermaid(topology)
    drawing.encode()
    mermaid(topology).encode()


def test_many_cells_have_letters() -> None:
    cells = [chain(op("conv", channels=number)) for number in range(1, 30)]
    found = texts(svg(chain(*cells)))
    assert {"cell A", "cell Z", "cell AA", "cell AC"} <= set(found)


def test_shapes_are_shown_when_asked_for() -> None:
    found = texts(svg(chain(op("conv", channels=8, stride=2), chain(op("conv")), op("identity")), (3, 32, 32)))
    assert found.count("3\u00d732\u00d732") == 1
    assert found.count("8\u00d716\u00d716") == 4
