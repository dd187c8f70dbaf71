"""The surrogate against closed forms and against scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import PairwiseKernel

from detol.embedding.warp import log_regret, standardised
from detol.strategies.guided.acquisition import expected_improvement
from detol.strategies.guided.gaussian import Distances, Posterior, best_members, evidence
from detol.strategies.guided.kernels import Settings, mixture, spread


def points(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((count, 3)).astype(np.float32)


def distances(left, right):
    squares = ((left[:, None] - right[None]) ** 2).sum(-1)
    return Distances(np.abs(left[:, None] - right[None]).mean(-1), squares, left @ right.T)


ONE = Settings(decisions=0.5, graphs=0.7, mix=0.4, linear=0.3, noise=0.05)


def kernel(a, b):
    d = distances(a.astype(np.float32), b.astype(np.float32))
    return mixture(ONE, d.hamming, d.structural, d.linear)


def test_posterior_without_mean_or_scale_is_scikit_learns():
    x, new = points(12), points(30, seed=1)
    values = np.sin(5 * x.sum(1)).astype(float)
    values -= values.mean()
    precomputed = PairwiseKernel(metric=lambda a, b, **_: float(kernel(a[None], b[None])[0, 0]))
    model = GaussianProcessRegressor(precomputed, alpha=ONE.noise + 1e-6, optimizer=None).fit(x, values)
    mean, deviation = model.predict(new, return_std=True)
    own = [(new**2).sum(1)]
    posterior = Posterior([(ONE, 1.0)], distances(x, x), distances(x, new), values, own)
    member = posterior.members[0]
    # The constant mean that the data choose shifts both by little; take it out by its closed form.
    covariance = kernel(x, x) + (ONE.noise + 1e-6) * np.eye(12)
    inverse = np.linalg.inv(covariance)
    level = np.ones(12) @ inverse @ values / (np.ones(12) @ inverse @ np.ones(12) + 0.1)
    across = kernel(new, x) @ inverse
    assert member.mean == pytest.approx(mean + level * (1 - across.sum(1)), abs=1e-3)
    assert member.variance == pytest.approx(deviation**2, abs=1e-3)


def test_evidence_is_the_density_of_a_students_t():
    from scipy.stats import multivariate_t

    x = points(9)
    values = np.cos(4 * x[:, 0]).astype(float)
    covariance = kernel(x, x) + (ONE.noise + 1e-6) * np.eye(9) + np.ones((9, 9)) / 0.1  # mean integrated out
    other = Settings(0.2, 0.2, 0.9, 0.0, 0.2)
    d = distances(x, x)
    theirs = (
        mixture(other, d.hamming, d.structural, d.linear) + (other.noise + 1e-6) * np.eye(9) + np.ones((9, 9)) / 0.1
    )
    # The scale's prior, inverse gamma of shape 1 and scale 1, makes a Student's t with two degrees of freedom.
    expected = [multivariate_t(shape=c, df=2).logpdf(values) for c in (covariance, theirs)]
    found = evidence([ONE, other], d, values)
    assert found[0] - found[1] == pytest.approx(expected[0] - expected[1], abs=1e-3)


def test_weights_follow_the_evidence():
    x = points(20)
    values = standardised(x @ np.array([3.0, -1.0, 0.5]))
    members = best_members(spread(32), distances(x, x), values, 4)
    weights = [weight for _, weight in members]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    assert members[0][0].linear > 0  # the scores are linear in the figures


def test_the_linear_term_is_dropped_where_scores_do_not_follow_it():
    x = points(40)
    values = standardised(np.sign(np.sin(40 * x[:, 0])).astype(float))
    d = distances(x, x)
    with_, without = Settings(0.3, 0.3, 0.5, 3.0, 0.1), Settings(0.3, 0.3, 0.5, 0.0, 0.1)
    found = evidence([with_, without], d, values)
    assert found[1] > found[0]


def test_believing_equals_conditioning_on_the_mean():
    x, new = points(10), points(25, seed=2)
    values = standardised(np.sin(3 * x[:, 0]).astype(float))
    own = [(new**2).sum(1)]
    stepwise = Posterior([(ONE, 1.0)], distances(x, x), distances(x, new), values, own)
    stepwise.believe(4, distances(new[4:5], new)[0])
    both = np.vstack([x, new[4:5]])
    at_once = Posterior([(ONE, 1.0)], distances(both, both), distances(both, new), values, own)
    assert stepwise.members[0].mean == pytest.approx(at_once.members[0].mean, abs=1e-4)
    assert stepwise.members[0].variance == pytest.approx(at_once.members[0].variance, abs=1e-4)
    assert stepwise.members[0].variance[4] < 0.1


def test_expected_improvement_against_sampling():
    mean, deviation = np.array([0.0, 1.0, -2.0], np.float32), np.array([1.0, 0.3, 2.0], np.float32)
    draws = norm.rvs(size=(400_000, 3), random_state=0) * deviation + mean
    sampled = np.maximum(draws - 0.5, 0).mean(0)
    assert expected_improvement(mean, deviation, 0.5) == pytest.approx(sampled, abs=5e-3)


def test_warp_spreads_the_good_and_keeps_the_order():
    scores = np.array([10.0, 90.0, 91.0, 91.5, 91.6])
    warped = log_regret(scores)
    assert (np.diff(warped) > 0).all()
    # By hand: the median regret is 0.6, so the best is -log(0.2) and the median -log(1.2).
    assert warped[[4, 2]] == pytest.approx([-np.log(0.2), -np.log(1.2)])
    assert (warped[4] - warped[3]) > (warped[1] - warped[0]) / 10
    assert np.isfinite(log_regret(np.zeros(3))).all()
    assert standardised(np.zeros(3)).tolist() == [0, 0, 0]


def test_results_tell_which_view_of_graphs_counts():
    """Values that follow one view alone: its settings get nearly all the weight, though the first one is favoured."""
    x, other = points(40), points(40, seed=3)
    first, second = distances(x, x), distances(other, other)
    both = Distances(
        np.zeros_like(first.hamming), first.structural, first.linear, ((second.structural, second.linear),)
    )
    settings = [replace(ONE, mix=0.0, linear=0.0, view=view) for view in (0, 1)]
    for rows, view in ((x, 0), (other, 1)):
        values = standardised(np.sin(4 * rows[:, 0]).astype(float))
        ((found, weight), *_) = best_members(settings, both, values, 2)
        assert found.view == view
        assert weight > 0.9


def test_without_evidence_the_first_view_is_favoured():
    """By e^2, where both views are the same."""
    x = points(10)
    one = distances(x, x)
    both = Distances(one.hamming, one.structural, one.linear, ((one.structural, one.linear),))
    members = best_members([ONE, replace(ONE, view=1)], both, standardised(x[:, 0].astype(float)), 2)
    assert [setting.view for setting, _ in members] == [0, 1]
    assert members[0][1] / members[1][1] == pytest.approx(np.exp(2))
