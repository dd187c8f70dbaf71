"""The contract of a search space, run over every built-in space and over spaces as users declare them.

To hold a space of your own to it, add a name or a path that ``detol.spaces.catalogue.load`` takes to ``SPACES``.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from detol.errors import SpaceError
from detol.graph.build import build
from detol.graph.codec import from_json, to_json
from detol.graph.digest import digest
from detol.graph.edit import is_dead
from detol.graph.topology import Topology, chain
from detol.search.protocols import SearchSpace
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions

SPACES = [*catalogue.builtins(), "user", "user:TABLE"]
SMALL = 2_000
SHAPES = {"image": [(1, 8, 8), (3, 9, 5)], "signal": [(1, 40), (2, 3)], "features": [(7,)]}
SHAPES["any"] = [(1, 4, 4), (2, 9), (5,)]

USER_FILE = """
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

def build(d):
    layers = [op("conv", channels=8, kernel=d["kernel"])]
    if d["depth"] == 2:
        layers.append(op(d["second"]) if d["second"] == "squeeze_excite" else op("pool", mode=d["mode"]))
    return chain(*layers)

SPACE = DecisionSpace(
    "user",
    [
        Choice("kernel", (1, 3, 5), ordered=True),
        Choice("depth", (1, 2), ordered=True),
        Choice("second", ("pool", "squeeze_excite"), when={"depth": [2]}),
        Choice("mode", ("avg", "max"), when={"second": ["pool"]}),
    ],
    build,
    references={"plain": {"kernel": 3, "depth": 1}},
    kind="image",
)
# Without a build: enough for a published table.
TABLE = DecisionSpace("table", [Choice(f"layer_{n}", ("gcn", "gat", "mlp")) for n in range(8)])
"""


@pytest.fixture(scope="module")
def user_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces") / "user.py"
    path.write_text(USER_FILE)
    return path


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest, user_file: Path) -> SearchSpace:
    name: str = request.param
    return catalogue.load(name.replace("user", str(user_file), 1) if name.startswith("user") else name)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def walked(space: SearchSpace, decisions: Decisions) -> list[Choice]:
    """The choices in the order in which ``next`` opens them along complete decisions."""
    prefix, found = Decisions(), []
    while (choice := space.next(prefix)) is not None:
        found.append(choice)
        prefix = prefix.with_(choice.name, decisions[choice.name])
    assert prefix == decisions
    return found


def test_it_keeps_the_protocol(space: SearchSpace) -> None:
    assert isinstance(space, SearchSpace)
    assert space.name


def test_sampling_uses_its_rng_and_reproduces(space: SearchSpace) -> None:
    first = [space.sample(rng) for rng in [np.random.default_rng(1)] for _ in range(20)]
    again = [space.sample(rng) for rng in [np.random.default_rng(1)] for _ in range(20)]
    other = [space.sample(rng) for rng in [np.random.default_rng(2)] for _ in range(20)]
    assert first == again
    assert first != other
    assert len(set(first)) > 3


def test_next_opens_the_choices_in_the_order_of_the_decisions(space: SearchSpace, rng: np.random.Generator) -> None:
    for decisions in (space.sample(rng) for _ in range(20)):
        choices = walked(space, decisions)
        assert [choice.name for choice in choices] == list(decisions)
        for choice in choices:
            assert decisions[choice.name] in choice.options
            assert len(set(choice.options)) == len(choice.options) >= 1


def test_every_option_of_every_choice_is_reached_by_sampling(space: SearchSpace, rng: np.random.Generator) -> None:
    seen: dict[str, set[object]] = {}
    offered: dict[str, set[object]] = {}
    for decisions in (space.sample(rng) for _ in range(1200)):
        for name, option in decisions.items():
            seen.setdefault(name, set()).add(option)
    for decisions in (space.sample(rng) for _ in range(40)):
        offered.update({choice.name: set(choice.options) for choice in walked(space, decisions)})
    assert {name: seen[name] for name in offered} == offered


def test_mutation_differs_is_valid_and_uses_its_rng(space: SearchSpace, rng: np.random.Generator) -> None:
    for parent in (space.sample(rng) for _ in range(10)):
        children = [space.mutate(parent, rng) for _ in range(20)]
        assert parent not in children
        assert len(set(children)) > 1
        for child in children:
            walked(space, child)
            both = [name for name in child if name in parent]
            assert sum(child[name] != parent[name] for name in both) == 1
        one, two = (space.mutate(parent, np.random.default_rng(5)) for _ in range(2))
        assert one == two


def test_crossing_takes_from_its_parents(space: SearchSpace, rng: np.random.Generator) -> None:
    mixed = 0
    for _ in range(20):
        first, second = space.sample(rng), space.sample(rng)
        child = space.cross(first, second, rng)
        walked(space, child)
        for name, option in child.items():
            offered = [parent[name] for parent in (first, second) if name in parent]
            assert not offered or option in offered
        mixed += child not in (first, second)
        assert space.cross(first, first, rng) == first
    assert mixed


def test_neighbours_differ_in_one_open_choice_and_are_all(space: SearchSpace, rng: np.random.Generator) -> None:
    for decisions in (space.sample(rng) for _ in range(3)):
        found = list(space.neighbours(decisions))
        assert len(set(found)) == len(found) == sum(len(c.options) - 1 for c in walked(space, decisions))
        for neighbour in found:
            walked(space, neighbour)
            assert sum(neighbour[name] != decisions[name] for name in decisions if name in neighbour) == 1


def test_decoding_is_pure(space: SearchSpace, rng: np.random.Generator) -> None:
    for decisions in (space.sample(rng) for _ in range(5)):
        one, two = space.decode(decisions), space.decode(Decisions(dict(reversed(list(decisions.items())))))
        assert one == two
        assert digest(from_json(to_json(one))) == digest(one)


def test_incomplete_unknown_or_wrong_decisions_are_one_clear_line(space: SearchSpace, rng: np.random.Generator) -> None:
    whole = space.sample(rng)
    first = next(iter(whole))
    for broken in (
        Decisions(),
        Decisions({name: whole[name] for name in list(whole)[1:]}),
        whole.with_(first, "no such option"),
        whole.with_("no such choice", 1),
    ):
        with pytest.raises(SpaceError) as caught:
            space.decode(broken)
        assert "\n" not in str(caught.value)


def test_enumeration_is_lazy_without_repeats_and_as_long_as_the_size(space: SearchSpace) -> None:
    start = list(itertools.islice(space.enumerate(), SMALL))
    assert len(set(start)) == len(start)
    for decisions in start[:: max(1, len(start) // 20)]:
        walked(space, decisions)
    assert space.size is not None
    assert len(start) == min(space.size, SMALL)


@pytest.mark.parametrize("space", ["tiny", "user"], indirect=True)
def test_sampling_a_small_space_reaches_all_of_it(space: SearchSpace, rng: np.random.Generator) -> None:
    assert space.size is not None
    assert {space.sample(rng) for _ in range(100 * space.size)} == set(space.enumerate())


def test_references_decode_differ_and_are_in_the_space(space: SearchSpace) -> None:
    topologies = [space.decode(decisions) for decisions in space.references.values()]
    for decisions, topology in zip(space.references.values(), topologies, strict=True):
        walked(space, decisions)
        assert topology in space
    assert len({digest(topology) for topology in topologies}) == len(topologies)


def test_what_it_decodes_is_in_it_under_any_names_and_other_networks_are_not(
    space: SearchSpace, rng: np.random.Generator
) -> None:
    for _ in range(3 if space.name == "nasbench201" else 25):
        topology = space.decode(space.sample(rng))
        assert topology in space
        assert renamed(topology) in space
    assert chain() not in space
    assert chain(catalogue.load("tiny").decode(next(catalogue.load("tiny").enumerate()))) not in space


def renamed(topology: Topology) -> Topology:
    """The same network with its nodes in another order and under other names."""
    new = {name: f"n{number}" for number, name in enumerate(topology.nodes)}
    nodes = {
        new[name]: renamed(node) if isinstance(node, Topology) else node
        for name, node in reversed(topology.nodes.items())
    }
    return Topology(nodes, [(new[source], new[target]) for source, target in topology.edges])


@pytest.mark.parametrize("space", [name for name in SPACES if name != "user:TABLE"], indirect=True)
def test_built_networks_run_forward_on_what_they_suit(space: SearchSpace, rng: np.random.Generator) -> None:
    kind = getattr(space, "kind", "any")
    torch.manual_seed(0)
    count = 2 if space.name == "nasbench201" else 12
    topologies = [space.decode(space.sample(rng)) for _ in range(count)]
    topologies += [space.decode(decisions) for decisions in space.references.values()]
    for topology in topologies:
        if is_dead(topology):
            continue
        for shape in SHAPES[kind]:
            out = build(topology, shape, 4).train()(torch.randn(3, *shape))
            assert out.shape == (3, 4)
            assert torch.isfinite(out).all()
