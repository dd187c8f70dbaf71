"""Guided as a strategy, beyond the contract that all keep (tests/contracts/test_strategy.py)."""

import itertools

import numpy as np
import pytest

from detol.embedding.features import features, is_path_statistic, levels
from detol.embedding.light import light
from detol.embedding.paths import path_statistics
from detol.errors import UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Origin, State, Trial
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.guided import Guided
from detol.strategies.guided import strategy as module
from detol.strategies.guided.pool import Pool, pool_of
from detol.strategies.random_search import RandomSearch

SMALL = DecisionSpace("small", [Choice(f"c{n}", ("a", "b", "c", "d")) for n in range(5)])
LARGE = DecisionSpace("large", [Choice(f"c{n}", tuple("abcdefgh")) for n in range(12)])
RNG = np.random.default_rng(5)
GAIN = {f"c{n}": dict(zip("abcdefgh", RNG.permutation(8) / 8, strict=True)) for n in range(12)}


def value(candidate):
    """The sum of what each option is worth, a little more for equal neighbours."""
    taken = list(candidate.decisions.items())
    pairs = sum(a[1] == b[1] for a, b in itertools.pairwise(taken))
    return sum(GAIN[name][option] for name, option in taken) + 0.1 * pairs


def told(number, candidate, score, state=State.COMPLETED):
    return Trial(number, candidate, state, 1, scores=(score,) if state.scored else None)


def search(strategy, trials, batch=1):
    found = []
    while len(found) < trials:
        asked = strategy.ask(batch)
        strategy.tell([told(len(found) + n, c, value(c)) for n, c in enumerate(asked)])
        found += asked
    return found


def by_row(candidate):
    return candidate.decisions


@pytest.mark.parametrize("space", [SMALL, LARGE], ids=["whole", "gathered"])
def test_beats_random_by_far(space):
    best = {}
    for make in (Guided, RandomSearch):
        best[make] = np.mean([max(map(value, search(make(space, seed=s, identity=by_row), 40))) for s in range(3)])
    spread = np.std([value(c) for c in RandomSearch(space, seed=9).ask(200)])
    assert best[Guided] > best[RandomSearch] + spread / 2


def test_finds_the_best_of_a_small_space():
    best = max(value(c) for c in RandomSearch(SMALL, identity=by_row).ask(4**5))
    assert best == max(value(c) for c in search(Guided(SMALL, seed=1, identity=by_row), 80))


def test_sixteen_pending_do_not_collapse_on_one_point():
    strategy = Guided(SMALL, seed=0, identity=by_row)
    search(strategy, 24)
    asked = [strategy.ask(1)[0] for _ in range(16)]
    rows = [tuple(c.decisions.values()) for c in asked]
    apart = [sum(a != b for a, b in zip(x, y, strict=True)) for n, x in enumerate(rows) for y in rows[:n]]
    assert len(set(rows)) == 16
    assert np.mean(apart) > 1.5  # of five choices; neighbours alone would be 1 to 2 apart from one centre


def test_references_come_first():
    space = catalogue.load("tiny")
    strategy = Guided(space, seed=0)
    asked = strategy.ask(len(space.references))
    assert [c.origin for c in asked] == [Origin.REFERENCE] * len(space.references)
    assert {c.decisions for c in asked} == set(space.references.values())


def test_equal_networks_in_other_rows_are_close_but_not_one():
    space = catalogue.load("nasbench201")
    pool = Pool(space)
    # conv3x3 on 0>1 and nothing else but a skip 1>3; the other row goes over node 2.
    from detol.search_spaces.nasbench201 import decisions

    rows = pool.add([decisions("300010"), decisions("030001"), decisions("333133"), decisions("400010")])
    pool.settle()
    places = np.asarray(rows)
    assert pool.structural(places[:1], places)[0, 1] == pytest.approx(0, abs=1e-5)
    assert pool.hamming(places[:1], places)[0, 1] > 0
    assert pool.structural(places[:1], places)[0, 2] > 0.1


def test_ordered_choices_are_nearer_when_their_steps_are():
    space = DecisionSpace(
        "o", [Choice("width", (8, 16, 32, 64)), Choice("kind", ("a", "b", "c")), Choice("on", (True, False))]
    )
    pool = pool_of(space)
    rows = {tuple(d.values()): n for n, d in enumerate(pool.rows)}
    here = np.asarray([rows[8, "a", True]])
    near, far, other = (
        pool.hamming(here, np.asarray([rows[to]]))[0, 0] for to in ((16, "a", True), (64, "a", True), (8, "c", True))
    )
    assert (near, far, other) == pytest.approx((1 / 9, 1 / 3, 1 / 3))


def test_closed_choices_differ_from_open_ones():
    space = DecisionSpace("c", [Choice("n", (1, 2)), Choice("x", ("a", "b"), when={"n": [2]})])
    pool = pool_of(space)
    one, two = (next(r for r, d in enumerate(pool.rows) if d["n"] == n) for n in (1, 2))
    assert pool.hamming(np.asarray([one]), np.asarray([two]))[0, 0] == 1.0


def test_an_ordered_choice_that_is_closed_on_one_side_differs_wholly_from_each_of_its_steps():
    space = DecisionSpace("w", [Choice("on", (False, True)), Choice("width", (8, 16, 64), when={"on": [True]})])
    pool = pool_of(space)
    rows = {d.get("width"): np.asarray([row]) for row, d in enumerate(pool.rows)}
    apart = {width: pool.hamming(rows[None], row)[0, 0] for width, row in rows.items()}
    assert apart == {None: 0.0, 8: 1.0, 16: 1.0, 64: 1.0}
    assert pool.hamming(rows[8], rows[16])[0, 0] == pytest.approx(1 / 4)


def test_options_are_told_apart_however_many_there_are():
    space = DecisionSpace("m", [Choice("n", tuple(f"option {n}" for n in range(2**16 + 1)))])
    pool = Pool(space)
    rows = pool.add([Decisions(n=f"option {n}") for n in (0, 2**16)])
    assert pool.hamming(np.asarray(rows[:1]), np.asarray(rows))[0].tolist() == [0.0, 1.0]


def test_a_small_space_is_laid_out_once_and_shared():
    assert pool_of(SMALL) is pool_of(SMALL)
    assert pool_of(LARGE) is not pool_of(LARGE)


@pytest.mark.parametrize("scores", [(0.1, 0.9, 0.4, 0.6), (0.5, 0.5, 0.5, 0.5)], ids=["differ", "are equal"])
def test_failed_networks_are_avoided_and_lost_ones_are_not(scores):
    values = ("ok", "bad", "fine", "well")
    space = DecisionSpace("f", [Choice(f"c{n}", values) for n in range(4)])
    strategy = Guided(space, seed=0, identity=by_row, local=0.0)
    bad = 0
    for number in range(60):
        (candidate,) = strategy.ask(1)
        fails = candidate.decisions["c0"] == "bad"
        bad += fails and number >= 20
        state = State.OUT_OF_MEMORY if fails else State.COMPLETED
        strategy.tell([told(number, candidate, scores[values.index(candidate.decisions["c1"])], state)])
    assert bad <= 4  # a quarter of the space
    strategy = Guided(space, seed=0, identity=by_row)
    strategy.tell([told(n, c, 0.0, State.LOST) for n, c in enumerate(strategy.ask(20))])
    assert strategy.ask(1)


def test_the_forest_takes_over_and_the_pool_stays_small(monkeypatch):
    monkeypatch.setattr(module, "FOREST", 30)
    monkeypatch.setattr(module, "ROWS", 300)
    monkeypatch.setattr(module, "CANDIDATES", 100)
    strategy = Guided(LARGE, seed=3, identity=by_row)
    found = search(strategy, 80, batch=4)
    assert len(strategy._pool) < 300 + 200
    assert np.mean([value(c) for c in found[-20:]]) > np.mean([value(c) for c in found[:20]])
    again = search(Guided(LARGE, seed=3, identity=by_row), 80, batch=4)
    assert [c.decisions for c in found] == [c.decisions for c in again]


def test_parts_can_be_switched_off():
    for options in ({"prior": False}, {"paths": False}, {"warp": False}, {"local": 0.0}, {"members": 1}):
        assert len(search(Guided(SMALL, seed=0, identity=by_row, **options), 15)) == 15
    assert all(c.origin is not Origin.MUTATE for c in search(Guided(SMALL, local=0.0, identity=by_row), 30))


def test_a_space_whose_choices_are_not_listed():
    class Bare:
        """The protocol alone."""

        def __init__(self, space):
            for name in (
                "name",
                "size",
                "references",
                "next",
                "sample",
                "mutate",
                "cross",
                "neighbours",
                "decode",
                "enumerate",
            ):
                setattr(self, name, getattr(space, name))

    assert len(search(Guided(Bare(SMALL), seed=0, identity=by_row), 20)) == 20


def test_a_space_of_one_topology_with_many_decisions_ends():
    space = DecisionSpace("same", [Choice("a", (1, 2, 3)), Choice("b", (1, 2))], lambda d: chain(op("conv")))
    strategy = Guided(space, seed=0)
    (only,) = strategy.ask(5)
    strategy.tell([told(0, only, 1.0)])
    assert strategy.ask(1) == ()


def test_refusals():
    for options in ({"initial": 1}, {"local": 1.5}, {"members": 0}):
        with pytest.raises(UsageError):
            Guided(SMALL, **options)


def test_pickled_decisions_hash_anew():
    import pickle

    from detol.spaces.decisions import Decisions

    decisions = Decisions(a="x")
    hash(decisions)
    decisions._hash = 1  # as another process would have it
    assert hash(pickle.loads(pickle.dumps(decisions))) == hash(Decisions(a="x"))


@pytest.mark.parametrize("embedding", ["paths", "svge"])
def test_embeddings_are_features(embedding):
    """Structural distances stay 1 on average, and see more than patterns."""
    space = catalogue.load("image_dag")
    pool, plain = Pool(space, embedding), Pool(space)
    some = [space.sample(np.random.default_rng(n)) for n in range(30)]
    for each in (pool, plain):
        each.add(some)
        each.settle()
    rows = np.arange(30)
    assert pool.structural(rows, rows).mean() == pytest.approx(1, rel=0.05)
    assert not np.allclose(pool.structural(rows, rows), plain.structural(rows, rows), atol=0.05)
    assert pool.inputs(rows).shape[1] > plain.inputs(rows).shape[1]
    kept = pool.structural(rows[:9], rows[:9])
    pool.compact(range(9))
    assert pool.structural(rows[:9], rows[:9]).shape == kept.shape


def test_either_sees_graphs_as_off_and_as_paths_do():
    space = catalogue.load("image_dag")
    pools = {embedding: Pool(space, embedding) for embedding in ("off", "paths", "either")}
    for pool in pools.values():
        pool.add([space.sample(np.random.default_rng(n)) for n in range(30)])
        pool.settle()
    rows, both = np.arange(30), pools["either"]
    assert (both.views, pools["paths"].views) == (2, 1)
    hamming, apart = both.distances(rows, rows)
    for view, name in enumerate(("off", "paths")):
        one = pools[name]
        assert apart[view] == pytest.approx(one.structural(rows, rows), abs=1e-4)
        assert both.linear(rows, rows, view) == pytest.approx(one.linear(rows, rows), abs=1e-5)
        assert both.linear_lengths()[view] == pytest.approx(np.diag(one.linear(rows, rows)), abs=1e-5)
    assert hamming == pytest.approx(pools["off"].hamming(rows, rows))


def test_path_statistics_are_told_from_other_figures():
    """By name, from what the module that makes them gives."""
    space = catalogue.load("image_dag")
    topology = space.decode(space.references["residual"])
    made = {role + name for graph, role in levels(light(topology)) for name in path_statistics(graph)}
    every = set(features(topology).figures)
    assert made == {name for name in every if is_path_statistic(name)}
    assert every > made


def test_guided_searches_with_path_statistics():
    strategy = Guided(SMALL, seed=1, embedding="paths", identity=by_row)
    assert len(search(strategy, 20)) == 20
    with pytest.raises(UsageError, match="paths"):
        Guided(SMALL, embedding="path")
