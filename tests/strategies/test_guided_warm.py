"""Guided with what it knows of other data sets: the algebra, trust, and what it is worth when the source is wrong."""

import itertools

import numpy as np
import pytest

from detol.embedding.warp import log_regret, standardised
from detol.search.records import Candidate, Origin, State, Trial
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.guided import Guided
from detol.strategies.guided import strategy as module
from detol.strategies.guided.encoder import Encoder
from detol.strategies.guided.gaussian import MEAN_PRECISION
from detol.strategies.guided.kernels import Settings, mixture, spread
from detol.strategies.guided.pool import pool_of
from detol.strategies.guided.source import (
    JITTER,
    OWN,
    SourcePosterior,
    SourceRows,
    choose_settings,
    fit_sources,
)
from detol.strategies.guided.transfer import TransferModel

SMALL = DecisionSpace(
    "small",
    [Choice(f"c{n}", ("a", "b", "c", "d")) for n in range(5)],
    references={"r": dict.fromkeys(["c0", "c1", "c2", "c3", "c4"], "a")},
)
LARGE = DecisionSpace("large", [Choice(f"c{n}", tuple("abcdefgh")) for n in range(12)])
RNG = np.random.default_rng(5)
GAIN = {f"c{n}": dict(zip("abcdefgh", RNG.permutation(8) / 8, strict=True)) for n in range(12)}
SHIFT = {f"c{n}": dict(zip("abcdefgh", RNG.normal(size=8) / 12, strict=True)) for n in range(12)}
SETTINGS = Settings(decisions=0.5, graphs=0.6, mix=0.6, linear=0.3, noise=0.05)


def value(decisions):
    """The sum of what each option is worth, a little more for equal neighbours."""
    pairs = sum(a[1] == b[1] for a, b in itertools.pairwise(decisions.items()))
    return sum(GAIN[name][option] for name, option in decisions.items()) + 0.1 * pairs


def sibling(decisions):
    """Much like ``value``: each option is worth a little more or less."""
    return value(decisions) + sum(SHIFT[name][option] for name, option in decisions.items())


def source(space, scores, count=60, seed=0, weight=1.0):
    rng, known = np.random.default_rng(seed), {}
    while len(known) < count:
        decisions = space.sample(rng)
        known[decisions] = scores(decisions)
    order = sorted(known.items(), key=lambda each: -each[1])
    return WarmSource("s", "x1:s", tuple(WarmRecord(d, s) for d, s in order), weight)


def told(number, candidate, score, state=State.COMPLETED):
    return Trial(number, candidate, state, 1, scores=(score,) if state.scored else None)


def run(strategy, trials, goal=np.inf):
    found = []
    while len(found) < trials:
        (candidate,) = strategy.ask(1)
        found.append(candidate)
        strategy.tell([told(len(found) - 1, candidate, value(candidate.decisions))])
        if value(candidate.decisions) >= goal:
            break
    return found


def by_row(candidate):
    return candidate.decisions


def dense(pool, rows, left, right=None):
    """The kernel of SETTINGS between rows, as full matrices."""
    right = np.asarray(left if right is None else right, np.intp)
    left = np.asarray(left, np.intp)
    return mixture(SETTINGS, pool.hamming(left, right), pool.structural(left, right), pool.linear(left, right)).astype(
        float
    )


def posterior(pool, rows, scores):
    values = standardised(log_regret(np.asarray(scores, float)))
    return SourcePosterior(pool, SourceRows(np.asarray(rows, np.intp), np.asarray(scores), 1.0), values, SETTINGS, 1.0)


def fitted(pool, *sources):
    return fit_sources(pool, sources, choose_settings(pool, sources, spread(48)))


def test_a_source_is_a_gaussian_process_conditioned_on_its_records():
    pool, rng = pool_of(SMALL), np.random.default_rng(1)
    rows, asked = rng.choice(1024, 30, replace=False), rng.choice(1024, 12, replace=False)
    values = standardised(log_regret(scores := rng.normal(size=30)))
    found = posterior(pool, rows, scores)
    # Rasmussen and Williams 2006, equations 2.25 and 2.26, with the constant mean as one more Gaussian term.
    own = OWN * SETTINGS.noise
    shared = (asked[:, None] == rows[None]) * own
    among = dense(pool, None, rows) + (SETTINGS.noise + JITTER) * np.eye(30)
    inverse, ones = np.linalg.inv(among), np.ones(30)
    level = (ones @ inverse @ values) / (ones @ inverse @ ones + MEAN_PRECISION)
    across = dense(pool, None, asked, rows) + shared
    assert np.allclose(found.mean[asked], level + across @ inverse @ (values - level), atol=2e-3)
    precision = ones @ inverse @ ones + MEAN_PRECISION
    scale = (values @ inverse @ values - level**2 * precision + 2) / 32
    expected = scale * (dense(pool, None, asked) + own * np.eye(12) - across @ inverse @ across.T)
    assert np.allclose(found.covariance(asked.tolist())[:, asked], expected, atol=2e-3)
    assert np.allclose(found.variance[asked], np.diagonal(expected), atol=2e-3)


def test_the_model_is_its_source_conditioned_on_what_the_search_has_seen():
    pool, rng = pool_of(SMALL), np.random.default_rng(2)
    rows, seen, asked = (rng.choice(1024, count, replace=False) for count in (40, 6, 9))
    known = posterior(pool, rows, rng.normal(size=40))
    values = standardised(rng.normal(size=6))
    model = TransferModel(pool, [known], seen.tolist(), values, [], np.arange(1024), [SETTINGS])
    everyone = np.arange(1024)
    for member in model._members:
        share, unit = member.prior.rho**2, member.prior.unit
        kernel = (1 - share) * dense(pool, None, everyone[seen], everyone)
        before = np.zeros(1024)
        if member.prior.source:
            kernel += share * known.covariance(seen.tolist())
            before = member.prior.rho * known.mean
        inverse = np.linalg.inv(kernel[:, seen] + (SETTINGS.noise + JITTER) * np.eye(6))
        gap, ones = unit * values - before[seen], np.ones(6)
        level = (ones @ inverse @ gap) / (ones @ inverse @ ones + MEAN_PRECISION)
        expected = before + level + kernel.T @ inverse @ (gap - level)
        assert np.allclose(member.mean[asked], expected[asked], atol=3e-3)


def test_pending_points_lower_what_is_expected_around_them_alone():
    pool = pool_of(SMALL)
    rows = np.random.default_rng(3).choice(1024, 40, replace=False)
    known = posterior(pool, rows, np.arange(40.0))
    model = TransferModel(pool, [known], [], np.zeros(0), [], np.arange(1024), [SETTINGS])
    _, before = model.improvement()
    best = int(np.argmax(before))
    model.believe(best)
    _, after = model.improvement()
    asked_first = TransferModel(pool, [known], [], np.zeros(0), [best], np.arange(1024), [SETTINGS])
    assert after[best] < before[best]
    assert np.allclose(after, asked_first.improvement()[1], atol=1e-3)


def test_trust_follows_the_results():
    pool, rng = pool_of(SMALL), np.random.default_rng(4)
    rows = rng.choice(1024, 80, replace=False)
    scores = np.array([value(pool.rows[row]) for row in rows])
    known = fitted(pool, SourceRows(rows, scores, 1.0))
    seen = rng.choice(1024, 8, replace=False).tolist()
    mine = np.array([value(pool.rows[row]) for row in seen])
    trust = {}
    for name, told_ in (("same", mine), ("reversed", -mine), ("chance", rng.permutation(mine))):
        values = standardised(log_regret(told_))
        (trust[name],) = TransferModel(pool, known, seen, values, [], np.arange(1024), spread(48)[::2]).trust
    assert trust["same"] > 0.95
    assert trust["reversed"] < 0.2
    assert trust["chance"] < 0.8


def test_a_source_of_little_weight_has_to_earn_its_trust():
    pool = pool_of(SMALL)
    rows = np.arange(0, 1024, 16)
    scores = np.array([value(pool.rows[row]) for row in rows])
    trust = []
    for weight in (1.0, 0.2):
        known = fitted(pool, SourceRows(rows, scores, weight))
        values = standardised(np.array([0.0, 1.0]))
        model = TransferModel(pool, known, [5, 900], values, [], np.arange(1024), spread(48)[::2])
        trust.append(sum(model.trust))
    assert trust[1] < trust[0]


def test_of_two_sources_the_one_that_is_borne_out_is_followed():
    right, wrong = source(SMALL, value), source(SMALL, lambda decisions: -value(decisions), seed=1)
    useless = WarmSource("u", "x1:u", (WarmRecord(Decisions(z=1), 1.0), WarmRecord(Decisions(z=2), 0.0)))
    strategy = Guided(SMALL, warm=[wrong, useless, right], references=False, seed=7, identity=by_row)
    assert strategy.trust == []
    run(strategy, 8)
    first, none, last = strategy.trust
    assert last > 0.6 > 0.2 > first
    assert none == 0
    assert first + last <= 1 + 1e-9


def test_first_the_source_s_best_then_something_from_elsewhere():
    whole = source(SMALL, value, count=1024)
    strategy = Guided(SMALL, warm=[whole], references=False, seed=1, identity=by_row)
    first, second = strategy.ask(2)
    assert value(first.decisions) >= whole.records[5].score
    assert (first.origin, second.origin) == (Origin.WARM, Origin.SAMPLE)
    third, *_ = strategy.ask(3)
    assert third.origin is Origin.WARM


def test_the_best_of_each_source_is_tried_first():
    sources = [source(SMALL, value), source(SMALL, lambda decisions: -value(decisions), seed=1)]
    strategy = Guided(SMALL, warm=sources, references=False, seed=1, identity=by_row)
    asked = strategy.ask(2)
    assert [candidate.origin for candidate in asked] == [Origin.WARM, Origin.WARM]
    every = sorted(map(value, SMALL.enumerate()))
    assert value(asked[0].decisions) > every[-100]
    assert value(asked[1].decisions) < every[100]
    strategy.tell([told(number, candidate, value(candidate.decisions)) for number, candidate in enumerate(asked)])
    (third,) = strategy.ask(1)
    assert third.origin is Origin.SAMPLE  # something from elsewhere, then as far as the sources are borne out


def test_a_source_whose_best_is_tried_already_has_had_its_turn():
    known = source(SMALL, value, count=1024)
    once = Guided(SMALL, warm=[known], references=False, seed=1, identity=by_row).ask(2)
    twice = Guided(SMALL, warm=[known, known], references=False, seed=1, identity=by_row).ask(2)
    assert [candidate.origin for candidate in twice] == [Origin.WARM, Origin.SAMPLE]
    assert twice[0].decisions == once[0].decisions


def test_references_that_are_tried_anyway_are_the_something_from_elsewhere():
    reference = Candidate(SMALL.references["r"], SMALL.decode(SMALL.references["r"]), Origin.REFERENCE, note="r")
    strategy = Guided(SMALL, warm=[source(SMALL, value)], seed=1, identity=by_row)
    strategy.expect([reference])
    assert {candidate.origin for candidate in strategy.ask(4)} == {Origin.WARM}


def needed(warm, seeds=5, most=60):
    """Mean trainings to one of the ten best of 1,024, without references."""
    goal = sorted(map(value, SMALL.enumerate()))[-10]
    counts = []
    for seed in range(seeds):
        known = [source(SMALL, warm, seed=seed)] if warm else []
        strategy = Guided(SMALL, warm=known, seed=seed, references=False, identity=by_row)
        counts.append(len(run(strategy, most, goal)))
    return float(np.mean(counts))


def test_a_sibling_saves_trainings_and_a_reversed_one_costs_few():
    cold, warm = needed(None), needed(sibling)
    assert warm < 0.6 * cold
    assert needed(lambda decisions: -value(decisions)) <= 1.3 * cold + 2


def test_failures_at_the_start_are_no_results_to_compare_with():
    strategy = Guided(SMALL, warm=[source(SMALL, value)], references=False, seed=2, identity=by_row)
    for number, state in enumerate((State.FAILED, State.DIVERGED, State.LOST)):
        (candidate,) = strategy.ask(1)
        strategy.tell([told(number, candidate, 0.0, state)])
    found = run(strategy, 12)
    assert max(value(c.decisions) for c in found) > np.quantile([value(d) for d in SMALL.enumerate()], 0.95)


def test_a_large_space_keeps_its_records_when_the_pool_is_cut(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 120)
    monkeypatch.setattr(module, "CANDIDATES", 40)
    known = source(LARGE, sibling, count=50)
    strategy = Guided(LARGE, warm=[known], seed=3, identity=by_row)
    found = run(strategy, 16)
    rows = [strategy._pool.rows[row] for row in strategy._warm.rows]
    assert rows == [record.decisions for record in known.records]
    assert len(strategy._pool) < 120 + 2 * module.FRESH
    best = max(value(c.decisions) for c in found)
    assert best > max(value(record.decisions) for record in known.records)


def test_records_of_other_choices_are_left_out():
    odd = WarmRecord(Decisions(c0="z"), 9.0)
    strange = WarmSource("s", "x1:s", (odd, WarmRecord(Decisions(other=1), 1.0)))
    strategy = Guided(SMALL, warm=[strange], references=False, seed=4, identity=by_row)
    cold = Guided(SMALL, references=False, seed=4, identity=by_row)
    assert [c.decisions for c in run(strategy, 8)] == [c.decisions for c in run(cold, 8)]


@pytest.mark.parametrize("space", [SMALL, LARGE], ids=["whole", "gathered"])
def test_the_same_calls_give_the_same_candidates(space):
    def once():
        strategy = Guided(space, warm=[source(space, sibling)], seed=6, identity=by_row)
        asked = list(strategy.ask(3))
        strategy.tell([told(n, c, value(c.decisions)) for n, c in enumerate(asked[:2])])
        return [c.decisions for c in [*asked, *strategy.ask(2), *strategy.ask(1)]]

    assert once() == once()


@pytest.mark.parametrize(
    ("name", "cold", "warm"),
    [("tiny", "either", "paths"), ("image_cell", "either", "paths"), ("chain", "off", "off")],
)
def test_what_a_search_knows_of_graphs_includes_path_statistics_where_they_branch(name, cold, warm):
    space = SMALL if name == "chain" else catalogue.load(name)
    known = source(space, lambda decisions: len(str(decisions)), count=5)
    few = WarmSource("s", "x1:s", (known.records[0], WarmRecord(Decisions(other=1), 1.0)))
    kept = {
        name: Guided(space, warm=sources, **options)._pool._encoder.embedding
        for name, sources, options in (
            ("cold", [], {}),
            ("too few that fit", [few], {}),
            ("warm", [few, known], {}),
            ("as asked", [known], {"embedding": "svge"}),
        )
    }
    assert kept == {"cold": cold, "too few that fit": cold, "warm": warm, "as asked": "svge"}


def test_learned_vectors_of_a_whole_space_are_those_of_its_topologies():
    space = catalogue.load("tiny")
    pool, encoder = pool_of(space, "svge"), Encoder(space, "svge")
    singly = [encoder.vectors([space.decode(decisions)])[0] for decisions in pool.rows]
    assert pool.whole
    assert len(pool) == len(singly) == space.size
    assert pool._vectors[: len(pool)] == pytest.approx(np.stack(singly), abs=1e-4)


@pytest.mark.parametrize("space", [SMALL, LARGE], ids=["whole", "gathered"])
def test_a_warm_search_can_weigh_both_views_of_graphs(space, monkeypatch):
    met = set()

    class Watched(TransferModel):
        def __init__(self, pool, sources, seen, values, pending, candidates, settings):
            met.update(each.view for each in settings)
            super().__init__(pool, sources, seen, values, pending, candidates, settings)

    monkeypatch.setattr(module, "TransferModel", Watched)
    found = run(Guided(space, warm=[source(space, sibling)], embedding="either", seed=1, identity=by_row), 12)
    assert met == {0, 1}
    assert len({candidate.decisions for candidate in found}) == 12
