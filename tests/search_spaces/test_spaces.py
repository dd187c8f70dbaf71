"""What the built-in spaces say of themselves, and that one topology fits data of very different sizes."""

import importlib

import numpy as np
import pytest

from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.flat import flat
from detol.graph.shapes import infer
from detol.graph.topology import Topology
from detol.search.records import Candidate, Origin, State, Trial
from detol.search_spaces import image_cell, image_dag, signal, tabular, tiny
from detol.spaces.catalogue import builtins, load
from detol.spaces.decisions import Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.guided import Guided


@pytest.fixture(params=["image_cell", "image_dag", "nasbench201", "signal", "tabular", "tiny"])
def space(request: pytest.FixtureRequest) -> DecisionSpace:
    found = load(str(request.param))
    assert isinstance(found, DecisionSpace)
    return found


def test_the_docstring_states_source_and_cardinality(space: DecisionSpace) -> None:
    text = importlib.import_module(f"detol.search_spaces.{space.name}").__doc__ or ""
    assert f"{space.size:,}" in text or f" {space.size} " in text
    assert "Source: " in text
    assert space.source
    assert space.description


def test_each_space_names_a_residual_and_a_plain_reference(space: DecisionSpace) -> None:
    assert {"residual", "plain"} <= set(space.references)
    assert len(builtins()) == 6


def test_tiny_is_18_networks_no_two_alike() -> None:
    assert len({digest(tiny.SPACE.decode(decisions)) for decisions in tiny.SPACE.enumerate()}) == tiny.SPACE.size == 18


@pytest.mark.parametrize("name", ["image_cell", "image_dag"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 8, 8), (3, 32, 32), (2, 5, 64)])
def test_image_spaces_fit_any_size(name: str, shape: tuple[int, ...]) -> None:
    space, rng = load(name), np.random.default_rng(4)
    for _ in range(15):
        topology = space.decode(space.sample(rng))
        assert all(min(after) >= 1 for after in infer(topology, shape).values())


@pytest.mark.parametrize("shape", [(1, 1), (1, 96), (6, 8000)])
def test_signals_of_any_length_fit(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    for _ in range(15):
        topology = signal.SPACE.decode(signal.SPACE.sample(rng))
        assert all(min(after) >= 1 for after in infer(topology, shape).values())


def test_sizes_follow_from_the_docstrings_formulas() -> None:
    cells = sum((3 if n > 1 else 1) * int(np.prod([10 * i * (i + 1) for i in range(1, n + 1)])) for n in range(1, 5))
    assert image_cell.SPACE.size == cells * (12 + 4 * 12 * (16 + 16**2)) * 2 * 2 * 3
    assert image_dag.SPACE.size == 2 * 5 * 2 * 4 * 2 * sum(7**d * 2 ** (d * (d + 1) // 2) for d in range(1, 9))
    assert signal.SPACE.size == 4 * 3 * 3 * 3 * 2 * 2 * 3 * (30 + 6 * (30**2 + 30**3 + 30**4))
    assert tabular.SPACE.size == 4 * 2 * 3 * (7 + 3 * sum(7**d for d in range(2, 7)))


def test_the_residual_reference_of_image_cell_is_a_basic_block() -> None:
    """He et al. 2016: two 3x3 convolutions and a skip over both, in each stage."""
    topology = image_cell.SPACE.decode(image_cell.SPACE.references["residual"])
    cells = [node for node in topology.nodes.values() if isinstance(node, Topology)]
    assert len(cells) == 3  # two stages and the reduction between them
    block = cells[0]
    assert sorted(block.edges) == sorted(
        [("input", "op_1"), ("op_1", "op_2"), ("op_2", "sum_2"), ("input", "sum_2"), ("sum_2", "output")]
    )


def test_the_lenet_reference_of_image_cell_is_a_chain_of_wide_convolutions_and_pooling() -> None:
    """LeCun et al. 1998, figure 2: convolutions of 5x5, with pooling between them."""
    topology = image_cell.SPACE.decode(image_cell.SPACE.references["lenet"])
    layers = [node.operation for node in flat(topology, (1, 8, 8)).values()]
    found = [layer for layer in layers if layer.kind in ("conv", "pool")]
    assert [(layer.kind, layer["kernel"]) for layer in found] == [("conv", 5), ("pool", 3)] * 2 + [("conv", 5)]


def test_the_wide_reference_of_image_cell_is_the_residual_one_in_three_stages_of_twice_the_width() -> None:
    """Zagoruyko and Komodakis 2016: the basic block, wider."""
    wide, residual = (image_cell.SPACE.references[name] for name in ("wide", "residual"))
    assert {name for name in wide if wide[name] != residual.get(name)} == {
        "stages",
        "width_1",
        "width_2",
        "width_3",
        "cells_3",
    }
    assert [wide[f"width_{stage}"] for stage in (1, 2)] == [2 * int(residual[f"width_{stage}"]) for stage in (1, 2)]
    assert wide["width_3"] == max(image_cell.WIDTHS)


def test_halvings_stand_where_they_say() -> None:
    assert image_dag.halved("none", 8) == set()
    assert image_dag.halved("even", 6) == {3, 5}
    assert image_dag.halved("early", 8) == {1, 3}
    assert image_dag.halved("even", 1) == {1}


def test_a_dense_tabular_network_sees_all_layers_before() -> None:
    taken = {"depth": 3, "skip": "dense", "activation": "relu", "norm": False, "dropout": 0.0}
    taken |= {"width_1": 16, "width_2": 32, "width_3": 64}
    topology = tabular.SPACE.decode(taken)
    # 5 -> 16 -> 32, then 48 -> 64, then a head on 16 + 32 + 64 features; weights and biases.
    weights = (5 * 16 + 16) + (16 * 32 + 32) + (48 * 64 + 64) + (112 * 3 + 3)
    assert cost(topology, (5,), 3).params == weights


def test_decisions_of_image_cell_from_before_there_were_stem_kernels_are_of_use() -> None:
    """They stand for 3x3, and a strategy learns from them as from whole ones."""
    space, rng = image_cell.SPACE, np.random.default_rng(3)
    whole = [found for _ in range(40) if (found := space.sample(rng))["stem_kernel"] == 3][:12]
    before = [Decisions({name: option for name, option in each.items() if name != "stem_kernel"}) for each in whole]
    assert [space.complete(each) for each in before] == whole

    def asked(decisions: list[Decisions]) -> list[str]:
        strategy = Guided(space, seed=1, initial=4, references=False)
        for number, each in enumerate(decisions):
            candidate = Candidate(each, space.decode(each), Origin.SAMPLE)
            score = (0.5 + 0.03 * number,)
            strategy.tell([Trial(number, candidate, State.COMPLETED, 1, scores=score)])
        return [candidate.digest for candidate in strategy.ask(3)]

    assert asked(before) == asked(whole) != asked([])
