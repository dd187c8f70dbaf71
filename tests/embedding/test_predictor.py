"""The predictor: against the formula of a Gaussian process, and on functions of the graph that are known."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from detol.embedding import predictor as module
from detol.embedding.features import features
from detol.embedding.predictor import Inputs, Predictor, inputs
from detol.spaces import catalogue
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

SPACE = catalogue.load("nasbench201")
TOPOLOGIES = [SPACE.decode(SPACE.sample(np.random.default_rng(n))) for n in range(160)]
KNOWN = inputs(TOPOLOGIES)
COUNTS = np.array([features(t).figures.get("cell/path_mean:conv", 0.0) for t in TOPOLOGIES])


def test_ranks_what_it_has_not_seen():
    noisy = COUNTS + np.random.default_rng(0).normal(0, 0.1, len(COUNTS))
    fitted = Predictor(KNOWN).fit(KNOWN[np.arange(40)], noisy[:40])
    mean, deviation = fitted.predict(KNOWN[np.arange(40, 160)])
    assert kendalltau(mean, COUNTS[40:]).statistic > 0.8
    assert deviation.shape == (120,)
    assert (deviation > 0).all()


def test_one_member_is_a_gaussian_process(monkeypatch):
    """With one setting, mean and variance are those of the textbook (Rasmussen and Williams 2006, equation 2.42)."""
    settings = module._Settings((0.3, 0.7), (0.5, 0.8), 0.4, 0.05)
    monkeypatch.setattr(module, "_spread", lambda blocks: [settings])
    rows, rest = np.arange(12), np.arange(12, 20)
    fitted = Predictor(KNOWN).fit(KNOWN[rows], COUNTS[rows] + 0.01 * rows)
    mean, deviation = fitted.predict(KNOWN[rest])

    every = fitted._blocks(KNOWN[np.arange(20)])
    figures = every[1] / fitted._scales[1]

    def kernel(a, b):
        total = 0.4 * figures[a] @ figures[b] / figures.shape[1]
        for weight, length, block in zip((0.3, 0.7), (0.5, 0.8), every, strict=True):
            total += weight * np.exp(-((block[a] - block[b]) ** 2).sum() / length)
        return total

    gram = np.array([[kernel(a, b) for b in range(20)] for a in range(20)])
    inner = np.linalg.inv(gram[:12, :12] + (0.05 + module.JITTER) * np.eye(12))
    y, one = fitted._values, np.ones(12)
    level = (one @ inner @ y) / (one @ inner @ one + module.MEAN_PRECISION)
    assert mean == pytest.approx(level + gram[12:, :12] @ inner @ (y - level), abs=1e-6)
    variance = np.diag(gram[12:, 12:] - gram[12:, :12] @ inner @ gram[:12, 12:])
    assert deviation**2 == pytest.approx(variance * fitted._members[0].scale, rel=1e-4)


def test_unit_and_offset_of_scores_do_not_matter():
    rows = np.arange(30)
    one = Predictor(KNOWN).fit(KNOWN[rows], COUNTS[rows]).predict(KNOWN)[0]
    other = Predictor(KNOWN).fit(KNOWN[rows], 1000 * COUNTS[rows] - 7).predict(KNOWN)[0]
    assert other == pytest.approx(one, abs=1e-6)


def test_equal_scores_and_many_scores_are_survived():
    fitted = Predictor(KNOWN).fit(KNOWN[np.arange(5)], np.full(5, 3.0))
    assert np.isfinite(fitted.predict(KNOWN)[0]).all()
    twice = np.tile(np.arange(160), 2)  # equal topologies with other scores: more than settings are compared on
    fitted = Predictor(KNOWN).fit(KNOWN[twice], np.tile(COUNTS, 2) + np.arange(320) / 1e4)
    assert kendalltau(fitted.predict(KNOWN)[0], COUNTS).statistic > 0.9


@pytest.mark.parametrize("scores", [[1.0], [1.0, float("nan")], [1.0, 2.0, 3.0]])
def test_bad_scores_are_refused(scores):
    with pytest.raises(ValueError, match="finite scores"):
        Predictor(KNOWN).fit(KNOWN[np.arange(2)], scores)


def test_symbols_and_vectors_will_do():
    """A published table without graphs, with learned vectors beside."""
    space = DecisionSpace("symbols", [Choice(f"c{n}", ("a", "b", "c")) for n in range(4)])
    every = list(space.enumerate())
    value = np.array([sum(option == "b" for option in d.values()) for d in every], float)
    given = inputs([space.decode(d) for d in every], vectors=np.random.default_rng(0).normal(size=(81, 3)))
    rows = np.random.default_rng(1).permutation(81)
    mean, _ = Predictor(given).fit(given[rows[:30]], value[rows[:30]]).predict(given[rows[30:]])
    assert kendalltau(mean, value[rows[30:]]).statistic > 0.6


def test_figures_that_the_reference_lacks_are_left_out():
    few = Inputs.of([features(t) for t in TOPOLOGIES[:30]])
    fitted = Predictor(few).fit(few, COUNTS[:30])
    other = catalogue.load("image_dag")
    foreign = inputs([other.decode(other.sample(np.random.default_rng(n))) for n in range(3)])
    assert np.isfinite(fitted.predict(foreign)[0]).all()
