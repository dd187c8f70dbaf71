"""Against the published benchmark (Dong and Yang 2020): counts, codes, parameters and FLOPs of its own table."""

import pytest

from detol.errors import SpaceError
from detol.graph.cost import cost
from detol.graph.digest import digest
from detol.graph.edit import is_dead
from detol.search.records import Candidate, Origin
from detol.search_spaces.nasbench201 import SPACE, cell, code, decisions
from detol.spaces.decisions import Decisions


def test_the_cells_are_15625_and_fall_into_5425_classes_one_of_them_dead() -> None:
    cells = [cell(taken) for taken in SPACE.enumerate()]
    assert len(cells) == 5**6 == SPACE.size
    assert len({digest(one) for one in cells}) == 5425
    assert sum(is_dead(one) for one in cells) == 341


def test_networks_are_the_same_exactly_when_their_cells_are() -> None:
    sampled = [taken for number, taken in enumerate(SPACE.enumerate()) if number % 61 == 0]
    pairs = {(digest(cell(taken)), digest(SPACE.decode(taken))) for taken in sampled}
    assert len(pairs) == len({pair[0] for pair in pairs}) == len({pair[1] for pair in pairs}) > 150


def test_codes_round_trip_for_all_cells() -> None:
    codes = [code(taken) for taken in SPACE.enumerate()]
    assert len(set(codes)) == 15625
    assert [decisions(one) for one in codes] == list(SPACE.enumerate())


def test_a_code_names_the_edges_in_the_order_of_the_table() -> None:
    taken = Decisions(
        edge_0_1="nor_conv_3x3",
        edge_0_2="none",
        edge_1_2="nor_conv_1x1",
        edge_0_3="skip_connect",
        edge_1_3="avg_pool_3x3",
        edge_2_3="none",
    )
    assert code(taken) == "302140"
    assert code(Candidate(taken, SPACE.decode(taken), Origin.SAMPLE)) == "302140"


@pytest.mark.parametrize("text", ["", "30214", "3021400", "302145", "30214x"])
def test_what_is_no_code_is_refused(text: str) -> None:
    with pytest.raises(SpaceError, match="6 digits from 0 to 4"):
        decisions(text)


@pytest.mark.parametrize(
    ("text", "millions"),
    [("333333", 1.5315), ("111111", 0.0733), ("303103", 0.8024), ("303003", 0.8024), ("333113", 1.0455)],
)
def test_parameters_are_those_of_the_published_table(text: str, millions: float) -> None:
    found = cost(SPACE.decode(decisions(text)), (3, 32, 32), 10)
    assert found.params / 1e6 == pytest.approx(millions, abs=1.5e-4)


def test_multiply_adds_are_the_published_ones() -> None:
    # The benchmark's own figure for the cell of six 3x3 convolutions on CIFAR-10 is 220.11969 M.
    assert cost(SPACE.decode(decisions("333333")), (3, 32, 32), 10).multiply_adds / 1e6 == pytest.approx(220.11969)


def test_the_cell_is_one_motif_used_fifteen_times() -> None:
    topology = SPACE.decode(SPACE.references["residual"])
    uses = [node for node in topology.nodes.values() if node == cell(SPACE.references["residual"])]
    assert len(uses) == 15
    assert len({id(node) for node in uses}) == 1
