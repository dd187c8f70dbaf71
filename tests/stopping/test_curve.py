"""The learning-curve rule: extrapolation, prediction, and what it stops."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import curve_fit

from detol.search.records import Objective, Report, State, Trial, Verdict
from detol.search.rehearse import NOBODY, rehearse
from detol.stopping.curve import CurveStop
from detol.stopping.extrapolation import LEAST, extrapolate
from detol.stopping.joined import Joined
from detol.stopping.prediction import predict
from detol.stopping.promotion import PromotingAsha

EPOCHS = 50
X = np.arange(1, EPOCHS + 1, dtype=float)
FORMS = {  # the table of Domhan et al. 2015, parameters drawn by hand
    "pow3": 0.9 - 0.5 * X**-0.7,
    "pow4": 0.9 - (2.0 * X + 3.0) ** -0.6,
    "log power": 0.9 / (1 + (X / math.exp(0.5)) ** -1.2),
    "exp3": 0.9 - np.exp(-0.12 * X - 0.7),
    "exp4": 0.9 - np.exp(-0.4 * X**0.6 - 0.2),
    "ilog2": 0.9 - 0.4 / np.log(X + 1),
}


def trial(number: int, curve: Sequence[float], state: State = State.RUNNING, epochs: int = EPOCHS) -> Trial:
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, NOBODY, state, epochs, reports=reports, curve=tuple(map(float, curve)))


def family(count: int, seed: int = 0, noise: float = 0.003) -> np.ndarray:
    """Return curves (count, 50) that saturate at different levels and speeds."""
    rng = np.random.default_rng(seed)
    level, size, speed = rng.uniform(0.6, 0.9, count), rng.uniform(0.2, 0.5, count), rng.uniform(0.5, 1.0, count)
    return level[:, None] - size[:, None] * X ** -speed[:, None] + rng.normal(0, noise, (count, EPOCHS))


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("points", [12, 25])
def test_each_form_is_extrapolated_within_its_spread(name: str, points: int) -> None:
    curve = FORMS[name]
    mean, spread = extrapolate(range(1, points + 1), curve[:points].tolist(), EPOCHS)
    assert abs(mean - curve[-1]) < 2.5 * spread
    assert abs(mean - curve[-1]) < 0.4 * (curve[-1] - curve[points - 1])  # better than the last value


def test_one_form_equals_scipys_least_squares() -> None:
    """ilog2 alone is linear: at the horizon it is what scipy fits with the same weights."""
    from detol.stopping import extrapolation

    curve = (0.9 - 0.4 / np.log(X + 1) + np.random.default_rng(0).normal(0, 0.01, EPOCHS))[:10]
    weights = np.arange(1, 11, dtype=float)
    (level, size), _ = curve_fit(lambda x, c, a: c - a / np.log(x + 1), X[:10], curve, sigma=weights**-0.5)
    basis = extrapolation._basis(tuple(range(1, 11)), EPOCHS)
    weights /= weights.sum()
    middle = weights @ curve
    found = middle + (basis.readers @ (curve - middle))[-1] * basis.ahead[-1]
    assert found == pytest.approx(level - size / math.log(EPOCHS + 1), abs=1e-6)


def test_too_few_points() -> None:
    with pytest.raises(ValueError, match=f"at least {LEAST} points, got 3"):
        extrapolate([1, 2, 3], [0.1, 0.2, 0.3], EPOCHS)


def test_with_few_points_the_forms_of_few_parameters_are_fitted() -> None:
    """Four points of c - a / log(x + 1): forms of four parameters fit any four points, and say nothing."""
    mean, spread = extrapolate([1, 2, 3, 4], FORMS["ilog2"][:4].tolist(), EPOCHS)
    assert mean == pytest.approx(FORMS["ilog2"][-1], abs=0.03)
    assert abs(mean - FORMS["ilog2"][-1]) < spread


@given(st.lists(st.floats(-1e3, 1e3), min_size=LEAST, max_size=20))
@settings(max_examples=100, deadline=None)
def test_any_finite_curve_has_a_finite_extrapolation(scores: list[float]) -> None:
    mean, spread = extrapolate(range(1, len(scores) + 1), scores, EPOCHS)
    assert math.isfinite(mean)
    assert 0 < spread < math.inf


@given(st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=30, deadline=None)
def test_units_do_not_matter(factor: float, shift: float) -> None:
    curve = family(1)[0, :10]
    mean, spread = extrapolate(range(1, 11), curve.tolist(), EPOCHS)
    moved, wider = extrapolate(range(1, 11), (factor * curve + shift).tolist(), EPOCHS)
    assert moved == pytest.approx(factor * mean + shift, rel=1e-6, abs=1e-6)
    assert wider == pytest.approx(factor * spread, rel=1e-4)


@pytest.mark.parametrize(
    ("points", "finished", "how"),
    [
        (3, 0, "last value"),
        (3, 12, "last value"),
        (10, 8, "extrapolation"),
        (10, 30, "regression"),
        (1, 30, "regression"),
    ],
)
def test_how_it_is_predicted_and_that_the_spread_is_calibrated(points: int, finished: int, how: str) -> None:
    """Of 60 curves of a family, about 95 % end within two spreads; never fewer than 85 %."""
    curves = family(60 + finished, seed=3)
    others = [trial(100 + number, curve, State.COMPLETED) for number, curve in enumerate(curves[60:])]
    inside = 0
    for number, curve in enumerate(curves[:60]):
        found = predict(trial(number, curve[:points]), others, EPOCHS)
        assert found.how == how
        inside += abs(curve[-1] - found.mean) <= 2 * found.spread
    assert inside >= 51


def test_nothing_is_known_from_few_points_alone() -> None:
    assert predict(trial(0, [0.1, 0.2]), [], EPOCHS) == predict(trial(0, [0.1, 0.2]), [], EPOCHS)
    assert math.isinf(predict(trial(0, [0.1, 0.2]), [], EPOCHS).spread)
    done = predict(trial(0, family(1)[0], State.COMPLETED), [], EPOCHS)
    assert (done.how, done.spread) == ("finished", 0.0)


def test_a_hopeless_trial_is_stopped_and_a_late_bloomer_is_not() -> None:
    best = trial(0, 0.9 - 0.5 / X, State.COMPLETED)
    rule = CurveStop(epochs=EPOCHS)
    assert rule.judge(trial(1, 0.6 - 0.5 / X[:12]), [best]) is Verdict.STOP
    steep = 0.95 - 0.9 * np.exp(-0.05 * X)  # below the best for 40 epochs, above it at the end of a longer training
    assert rule.judge(trial(1, steep[:12]), [best]) is Verdict.CONTINUE


def test_the_chance_is_shared_by_the_trials_of_a_search() -> None:
    rule = CurveStop(epochs=EPOCHS, chance=0.05)
    assert [rule.threshold(trials) for trials in (1, 48, 55, 110, 550)] == pytest.approx(
        [0.065, 0.065, 0.05, 0.0125, 0.0005]
    )
    planned = CurveStop(epochs=EPOCHS, chance=0.05, trials=110)
    assert [planned.threshold(trials) for trials in (1, 110, 550)] == pytest.approx([0.0125, 0.0125, 0.0005])
    best, doubtful = trial(0, 0.9 - 0.5 / X, State.COMPLETED), trial(1, 0.86 - 0.5 / X[:7])
    chance = rule.passing(doubtful, [best])
    judges = [CurveStop(epochs=EPOCHS, chance=1.5 * chance, trials=trials) for trials in (55, 550)]
    assert [judge.judge(doubtful, [best]) for judge in judges] == [Verdict.STOP, Verdict.CONTINUE]


def test_without_an_incumbent_nobody_is_stopped() -> None:
    rule = CurveStop(epochs=EPOCHS)
    behind = [trial(number, family(4)[number, :3]) for number in range(4)]
    assert rule.judge(trial(9, np.zeros(12)), behind) is Verdict.CONTINUE
    assert rule.judge(trial(9, np.zeros(12)), []) is Verdict.CONTINUE


def test_nan_is_stopped_and_nan_of_others_is_no_incumbent() -> None:
    rule = CurveStop(epochs=EPOCHS)
    assert rule.judge(trial(0, [0.1, math.nan]), []) is Verdict.STOP
    broken = [trial(number, [math.nan] * EPOCHS, State.DIVERGED) for number in range(1, 30)]
    assert rule.judge(trial(0, family(1)[0, :12]), broken) is Verdict.CONTINUE


def test_earlier_searches_help_from_the_first_epoch_on() -> None:
    curves = family(60, seed=5, noise=0.001)
    curves = curves[np.argsort(curves[:, -1])]
    earlier = [trial(-1 - number, curve, State.COMPLETED) for number, curve in enumerate(curves[::2])]
    best, worst = trial(0, curves[-1], State.COMPLETED), trial(1, curves[1, :2])
    assert CurveStop(epochs=EPOCHS).judge(worst, [best]) is Verdict.CONTINUE
    assert CurveStop(epochs=EPOCHS, earlier=earlier).judge(worst, [best]) is Verdict.STOP


def test_with_two_objectives_a_smaller_network_is_not_stopped() -> None:
    two = (Objective("val_accuracy"), Objective("params", minimise=True))
    rule = CurveStop(epochs=EPOCHS, objectives=two)
    best = Trial(**{**vars(trial(0, 0.9 - 0.5 / X, State.COMPLETED)), "extra": {"params": 100}})
    weak = vars(trial(1, 0.6 - 0.5 / X[:12]))
    assert rule.judge(Trial(**{**weak, "extra": {"params": 101}}), [best]) is Verdict.STOP
    assert rule.judge(Trial(**{**weak, "extra": {"params": 99}}), [best]) is Verdict.CONTINUE


def test_with_promotion_it_spends_less_and_still_finds_the_best() -> None:
    known = [trial(number, curve, State.COMPLETED) for number, curve in enumerate(family(60, seed=7))]
    best = max(range(60), key=lambda number: known[number].curve[-1])
    alone = rehearse(known, PromotingAsha(epochs=EPOCHS))
    both = rehearse(known, Joined(PromotingAsha(epochs=EPOCHS), CurveStop(epochs=EPOCHS)))
    assert both.epochs < alone.epochs < 60 * EPOCHS / 4
    assert known[both.best].curve[-1] == pytest.approx(known[best].curve[-1], abs=0.02)
