"""Where scores after few epochs are taken along to, worked out by hand; and that the guided strategy uses it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace
from detol.strategies.guided import Guided
from detol.strategies.guided.rises import Rises

EPOCHS = 4
SPACE = DecisionSpace("s", [Choice("width", (4, 8, 16, 32))], build=lambda d: chain(op("conv", channels=d["width"])))


def trial(number: int, *curve: float, state: State | None = None, width: int = 4) -> Trial:
    candidate = Candidate(Decisions(width=width), SPACE.decode(Decisions(width=width)), Origin.GUIDED)
    state = state or (State.COMPLETED if len(curve) == EPOCHS else State.PAUSED)
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, candidate, state, EPOCHS, reports=reports, curve=curve, scores=curve[-1:])


def lifted(*trials: Trial) -> list[float]:
    rises = Rises()
    rises.note(trials)
    return list(rises.lifted([t.number for t in trials], np.array([t.score for t in trials])))


def test_without_a_trial_that_rests_nothing_changes() -> None:
    assert lifted(trial(0, 1, 2, 3, 4), trial(1, 1, 1, 1, 1)) == [4, 1]


def test_from_equal_scores_the_mean_gain_of_those_that_went_on_is_added() -> None:
    """From epoch 1 to 2 two have gone on, by 2 and 4; from 2 to the end one has, by 5."""
    assert lifted(trial(0, 1, 3, 6, 8), trial(1, 1, 5), trial(2, 0.5)) == [8, 5 + 5, 0.5 + 3 + 5]


def test_a_lead_counts_as_much_as_it_did_for_those_that_went_on() -> None:
    """Numpy's fit has a slope of 1/2 through five curves; 1 counts as three more of them: (5 / 2 + 3) / 8."""
    starts, ends = [0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 5.5, 6.0, 6.5, 7.0]
    assert np.polyfit(starts, ends, 1) == pytest.approx([0.5, 5.0])
    known = [trial(number, *pair, 0, 0) for number, pair in enumerate(zip(starts, ends, strict=True))]
    known = [replace(t, reports=t.reports[:2], curve=t.curve[:2], scores=t.curve[1:2], epochs=2) for t in known]
    behind = [replace(trial(9 + place, score), epochs=2) for place, score in enumerate((2.0, 3.0, 8.0, -1.0))]
    slope = (5 * 0.5 + 3) / 8
    below = 6 + slope * (0 - 2) - 1  # under the lowest start what is missing counts whole
    assert lifted(*known, *behind)[5:] == pytest.approx([6, 6 + slope, 6 + 6 * slope, below])


@pytest.mark.parametrize(("ends", "fit"), [((7.0, 6.0, 5.0), 0.0), ((0.0, 3.0, 6.0), 1.0)])
def test_a_lead_neither_turns_into_a_lag_nor_grows(ends: tuple[float, ...], fit: float) -> None:
    known = [trial(number, 1.0 + number, 0, 0, end) for number, end in enumerate(ends)]
    found = lifted(*known, trial(7, 2.0), trial(8, 3.0))
    assert found[-1] - found[-2] == pytest.approx((3 * fit + 3) / 6)


def test_what_was_stopped_counts_like_what_rests() -> None:
    assert lifted(trial(0, 1, 3, 6, 8), trial(1, 1, 2, state=State.STOPPED)) == [8, 7]


def test_as_far_as_anything_is_known() -> None:
    assert lifted(trial(0, 1, 3), trial(1, 0.5)) == [3, 2.5]  # nobody has come to the end


def test_failures_and_gaps() -> None:
    bad = replace(trial(1, 5, state=State.FAILED), scores=None)
    gap = trial(2, 1, math.nan, 6, 8)
    found = lifted(trial(0, 1, 3, 6, 9), bad, gap, trial(3, 1, 2))
    assert found[0] == 9
    assert found[1] == -math.inf
    assert found[3] == 2 + 6  # the curve with a gap at epoch 2 says nothing of the gain from there


def test_a_later_telling_replaces_an_earlier_one() -> None:
    rises = Rises()
    rises.note([trial(0, 1, 3, 6, 8), trial(1, 1)])
    assert list(rises.lifted([0, 1], np.array([8.0, 1.0]))) == [8, 8]
    rises.note([trial(1, 1, 2, 3, 4)])
    assert list(rises.lifted([0, 1], np.array([8.0, 4.0]))) == [8, 4]


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=EPOCHS), min_size=1, max_size=12))
def test_the_order_of_those_that_stand_at_the_same_epoch_is_kept(curves: list[list[float]]) -> None:
    trials = [trial(number, *curve) for number, curve in enumerate(curves)]
    found = lifted(*trials)
    for a, one in zip(found, trials, strict=True):
        for b, other in zip(found, trials, strict=True):
            if one.epoch == other.epoch and one.score > other.score + 1e-6:
                assert a > b
    assert all(found[t.number] == t.score for t in trials if t.epoch == EPOCHS)


def test_the_strategy_compares_trials_as_if_all_had_come_as_far() -> None:
    """Two of three ended at 0.9 and 0.8; the third was as good as the first after one epoch."""
    strategy = Guided(SPACE, initial=2, references=False)
    strategy.tell([trial(0, 0.5, 0.7, 0.8, 0.9, width=4), trial(1, 0.4, 0.5, 0.7, 0.8, width=8)])
    strategy.tell([trial(2, 0.5, width=16)])
    seen = strategy._rises.lifted(strategy._numbers, np.asarray(strategy._scores))
    assert seen == pytest.approx([0.9, 0.8, 0.9])
    strategy.tell([trial(2, 0.5, 0.6, state=State.STOPPED, width=16)])
    seen = strategy._rises.lifted(strategy._numbers, np.asarray(strategy._scores))
    assert seen == pytest.approx([0.9, 0.8, 0.6 + 0.25])
    assert strategy.ask(1)[0].decisions["width"] == 32
