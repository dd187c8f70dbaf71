import pytest

from detol.errors import SpaceError
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.search.protocols import SearchSpace
from detol.spaces import space as module
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace

CHOICES = [Choice("channels", (8, 16), ordered=True), Choice("twice", (False, True))]


def build(decisions: Decisions) -> Topology:
    layer = op("conv", channels=decisions["channels"])
    return chain(layer, layer) if decisions["twice"] else chain(layer)


def test_references_are_checked_when_the_space_is_declared() -> None:
    space = DecisionSpace("s", CHOICES, build, references={"one": {"twice": False, "channels": 8}})
    assert list(space.references["one"]) == ["channels", "twice"]
    with pytest.raises(SpaceError, match="'channels' is missing"):
        DecisionSpace("s", CHOICES, build, references={"one": {"twice": False}})


def test_without_a_build_the_topology_is_a_chain_of_symbols() -> None:
    space = DecisionSpace("table", CHOICES)
    topology = space.decode({"channels": 8, "twice": True})
    assert topology == chain(op("symbol", name="channels", value=8), op("symbol", name="twice", value=True))
    assert space.read(topology) == {"channels": 8, "twice": True}
    assert chain(op("symbol", name="channels", value=32)) not in space
    assert isinstance(space, SearchSpace)


def test_closed_choices_are_no_symbols() -> None:
    space = DecisionSpace("table", [Choice("a", (1, 2)), Choice("b", (3,), when={"a": (2,)})])
    assert len(space.decode({"a": 1}).nodes) == 3
    assert len(space.decode({"a": 2, "b": 3}).nodes) == 4


def test_membership_of_a_small_space_is_told_by_listing() -> None:
    space = DecisionSpace("s", CHOICES, build)
    assert space.read(chain(op("conv", channels=16), op("identity"))) == {"channels": 16, "twice": False}
    assert chain(op("conv", channels=32)) not in space


def test_membership_of_a_large_space_asks_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENUMERABLE", 3)
    with pytest.raises(SpaceError, match="declare it with read="):
        _ = chain() in DecisionSpace("s", CHOICES, build)


def test_what_a_reader_guesses_is_verified() -> None:
    guesses = [{"channels": 3}, {"channels": 8, "twice": True}, {"channels": 8, "twice": False}]
    space = DecisionSpace("s", CHOICES, build, read=lambda _: guesses)
    assert space.read(chain(op("conv", channels=8))) == guesses[2]
    assert chain(op("conv", channels=16)) not in space


def test_a_build_that_fails_is_one_line() -> None:
    space = DecisionSpace("mine", CHOICES, lambda d: chain(op("convv", channels=d["channels"])))
    with pytest.raises(SpaceError, match="'mine' cannot build .*channels=8.*did you mean") as caught:
        space.decode({"channels": 8, "twice": True})
    assert "\n" not in str(caught.value)


def test_a_build_that_returns_no_topology_is_refused() -> None:
    space = DecisionSpace("mine", CHOICES, lambda d: op("conv"))  # type: ignore[arg-type, return-value]
    with pytest.raises(SpaceError, match="returned Operation"):
        space.decode({"channels": 8, "twice": True})
