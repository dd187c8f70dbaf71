import numpy as np
import pytest

from detol.graph.digest import digest
from detol.search.records import Origin, State
from detol.spaces import catalogue
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.base import Told, complete
from detol.strategies.evolution import AgeingEvolution
from detol.strategies.graph_edits import edited, graph_edit

DAG = catalogue.load("image_dag")


@pytest.mark.parametrize("seed", range(3))
def test_an_edited_graph_is_another_network_of_the_space(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(8):
        decisions = DAG.sample(rng)
        child = edited(DAG, decisions, rng)
        if child is not None:
            found += 1
            assert complete(DAG, child)
            assert digest(DAG.decode(child)) != digest(DAG.decode(decisions))
    assert found


def test_an_edit_takes_more_than_one_decision() -> None:
    """What a mutation of one decision cannot do: a layer between two others moves all that are behind it."""
    rng = np.random.default_rng(0)
    near: list[int] = []
    for _ in range(30):
        decisions = DAG.sample(rng)
        child = edited(DAG, decisions, rng)
        if child is not None:
            shared = [name for name in child if name in decisions]
            near.append(sum(child[name] != decisions[name] for name in shared))
    assert max(near) > 1


def test_a_space_that_cannot_read_gets_a_mutation() -> None:
    class Blind:
        """A space with the methods of the protocol alone."""

        def __init__(self) -> None:
            inner = DecisionSpace("blind", [Choice("a", (1, 2, 3))])
            for name in ("name", "size", "references", "next", "sample", "mutate", "cross", "neighbours", "decode"):
                setattr(self, name, getattr(inner, name))
            self.enumerate = inner.enumerate

        def __contains__(self, topology: object) -> bool:
            return True

    space = Blind()
    parent = Told(4, space.sample(np.random.default_rng(0)), "x", State.COMPLETED, 1.0, (1.0,))
    child = graph_edit(space, lambda: parent, np.random.default_rng(0))
    assert child.decisions != parent.decisions
    assert (child.origin, child.parents) == (Origin.MUTATE, (4,))
    assert AgeingEvolution(space, graph_edits=0.5).ask(3)
