"""The generator, beyond the contract that all strategies keep (tests/contracts/test_strategy.py)."""

import numpy as np
import pytest
import torch

from detol.embedding.graphs import take_apart
from detol.errors import UsageError
from detol.graph.digest import digest
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Origin, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace
from detol.strategies.generate import Generate
from detol.strategies.generate.basis import basis_of, decode, encode
from detol.strategies.generate.landing import Landing
from detol.strategies.random_search import RandomSearch

CELLS = catalogue.load("nasbench201")
SMALL = DecisionSpace("small", [Choice(f"c{n}", ("a", "b", "c", "d")) for n in range(5)])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def told(number, candidate, score):
    return Trial(number, candidate, State.COMPLETED, 1, scores=(score,))


def search(strategy, value, trials):
    found = []
    while len(found) < trials and (asked := strategy.ask(1)):
        strategy.tell([told(len(found) + n, c, value(c)) for n, c in enumerate(asked)])
        found += asked
    return found


def wanted(candidate):
    """How many choices are an a, the first ones for more: what a predictor can learn from few trials."""
    return sum(2.0**-n for n, option in enumerate(candidate.decisions.values()) if option == "a")


def test_what_varies_in_a_space_is_found():
    basis = basis_of(CELLS, 30, 0)
    assert list(basis.varying) == [1]  # the cell; the network around it and the reductions are always the same
    assert basis.usable
    alike = basis_of(catalogue.load("image_dag"), 12, 0)
    assert list(alike.varying) == [0]
    assert basis_of(CELLS, 30, 0) is basis


def test_fixed_parts_are_taken_as_they_are():
    """Whatever the cell becomes, the network around it is that of the space."""
    basis = basis_of(CELLS, 30, 0)
    points = encode(basis.model, basis.apart[:4], len(basis.fixed))
    for topology in decode(basis.model, basis, points):
        if topology is not None:
            apart = take_apart(topology)
            assert apart[0] == basis.fixed[0]


def test_members_are_read_and_others_land_on_the_nearest():
    landing = Landing(CELLS)
    member = CELLS.references["residual"]
    other = chain(op("linear"))
    near = [CELLS.references["plain"], member]
    at = torch.tensor([[0.0, 0.0], [5.0, 5.0]])
    points = torch.tensor([[9.0, 9.0], [4.0, 4.0], [0.1, 0.0]])
    found = landing.land([CELLS.decode(member), other, None], points, near, at)
    assert digest(CELLS.decode(found[0])) == digest(CELLS.decode(member))
    assert found[1:] == [member, CELLS.references["plain"]]
    assert (landing.members, landing.others) == (1, 2)


def test_a_space_that_cannot_read_is_landed_in():
    """Too large to list, and no reader: all points lead to the nearest topology that is given."""
    large = DecisionSpace(
        "large",
        [Choice(f"c{n}", ("1", "3", "5", "7")) for n in range(8)],
        lambda d: chain(*(op("conv", kernel=int(str(option))) for option in d.values())),
    )
    given = large.sample(np.random.default_rng(0))
    landing = Landing(large)
    topology = large.decode(given)
    assert landing.read(topology) is None
    assert landing.land([topology], torch.zeros(1, 2), [given], torch.zeros(1, 2)) == [given]


def test_proposals_are_written_after_the_initial_design():
    strategy = Generate(SMALL, initial=6, samples=60, pretrain=40, drawn=16, refit=6, steps=2, seed=1)
    asked = search(strategy, wanted, 20)
    origins = [candidate.origin for candidate in asked]
    assert origins[:6] == [Origin.SAMPLE] * 6
    assert origins.count(Origin.GENERATE) > 7
    written = [candidate for candidate in asked if candidate.origin is Origin.GENERATE]
    assert all(candidate.parents or candidate.parents == () for candidate in written)
    assert any(candidate.parents for candidate in written)
    assert sum(strategy.landed) >= 16 * 14


def test_is_better_than_random():
    best = {}
    for name, make in {
        "generate": lambda seed: Generate(SMALL, samples=60, pretrain=60, drawn=32, steps=2, seed=seed),
        "random": lambda seed: RandomSearch(SMALL, seed=seed),
    }.items():
        best[name] = np.mean([max(map(wanted, search(make(seed), wanted, 26))) for seed in range(2)])
    assert best["generate"] > best["random"]


@pytest.mark.parametrize("option", [{"initial": 1}, {"drawn": 0}, {"k": 0.0}, {"reach": -1.0}, {"steps": -1}])
def test_options_against_their_rules(option):
    with pytest.raises(UsageError, match=next(iter(option))):
        Generate(SMALL, **option)
