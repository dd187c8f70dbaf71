"""The policy of widths alone: who waits, who is alone, who would hold up the end."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.scaling.auto import Auto
from detol.scaling.forecast import Forecast
from detol.scaling.link import Link
from detol.scaling.presets import preset
from detol.search.protocols import Widths
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.widths import FORECAST, WIDTHS, Leg, Situation, width_at
from detol.spaces.decisions import Decisions

from .conftest import machine_of


class Table(Forecast):
    """A forecast of trials whose decisions say their seconds of an epoch; a share of them no width divides."""

    def __init__(self, serial=0.1, setup=0.0, most=64, **options):
        super().__init__(
            machine_of(setup=setup), shape=(4,), outputs=2, samples=10_000, batch=128, limit=most, **options
        )
        self.serial = serial

    def epoch_seconds(self, trial, width):
        seconds = float(trial.candidate.decisions["seconds"])
        return seconds * (self.serial + (1 - self.serial) / width)


def trial(number, seconds, epochs=1, **changes):
    candidate = Candidate(Decisions(seconds=seconds), chain(op("linear", features=4)), Origin.SAMPLE)
    return replace(Trial(number, candidate, State.RUNNING, epochs), **changes)


def leg(number, seconds, epochs=1, elapsed=0.0, **changes):
    return Leg(trial(number, seconds, epochs, **changes), epochs, elapsed)


def choose(one, free, forecast=None, prior=(), **situation):
    return Auto(forecast or Table(), prior=lambda: prior).choose(one, Situation(free, **situation))


def test_it_keeps_the_protocol():
    assert isinstance(Auto(Table()), Widths)


def test_with_more_trials_than_workers_they_go_side_by_side():
    found = choose(leg(0, 100.0), 4, left=50)
    assert found.ranks == 1
    assert found.reason == "side by side: 50 more trials to come for 4 workers"
    assert choose(leg(0, 100.0), 4, left=float("inf")).ranks == 1


def test_the_last_trial_takes_all_workers():
    found = choose(leg(0, 1000.0), 4)
    assert found.ranks == 4
    # 1000 (0.1 + 0.9 / 4) = 325, and as long as nobody knows better 1.07 times that on two ranks, 1.07 ** 1.5 on four.
    assert "workers would idle; about 360 s instead of 1000, the search may end 640 s sooner" in found.reason
    assert found.forecast == pytest.approx(325)


def test_two_equal_trials_share_the_workers():
    first = choose(leg(0, 1000.0), 4, waiting=[leg(1, 1000.0)])
    assert first.ranks == 2
    second = choose(leg(1, 1000.0), 2, running=[leg(0, 1000.0, width=2)])
    assert second.ranks == 2


def test_a_large_one_among_small_ones_would_hold_up_the_end():
    small = [leg(n, 10.0) for n in range(1, 10)]
    found = choose(leg(0, 1000.0), 4, waiting=small)
    assert found.ranks >= 3
    assert found.reason.startswith(f"{found.ranks} of 4: ")
    # The small ones that come before it are not made wider for that.
    assert choose(small[0], 4, waiting=[leg(0, 1000.0), *small[1:]]).ranks == 1


def test_a_large_one_waits_for_workers_that_are_free_soon_but_not_for_long():
    soon = [leg(n, 10.0, elapsed=8.0) for n in range(1, 4)]
    found = choose(leg(0, 1000.0), 1, running=soon)
    assert found.ranks == 4
    assert "after 2 s of waiting" in found.reason
    late = [leg(n, 2000.0) for n in range(1, 4)]
    assert choose(leg(0, 1000.0), 1, running=late).ranks == 1


def test_nobody_waits_long_for_one_that_is_late():
    # It should have ended after 10 s, 5 s ago: who knows when it will.
    late = [leg(1, 10.0, elapsed=15.0)]
    assert choose(leg(0, 30.0), 1, running=late).ranks == 1
    assert choose(leg(0, 30.0), 1, running=[leg(1, 10.0, elapsed=9.5)]).ranks == 2


def test_what_wide_trials_cost_counts():
    # Without any parallel part a width gains nothing; with a slow start of the group neither.
    assert choose(leg(0, 1000.0), 4, Table(serial=1.0)).ranks == 1
    assert choose(leg(0, 20.0), 4, Table(setup=30.0)).ranks == 1
    assert choose(leg(0, 2000.0), 4, Table(setup=30.0)).ranks == 4


def test_a_few_seconds_are_not_worth_another_width():
    assert choose(leg(0, 6.0), 4).ranks == 1
    assert choose(leg(0, 60.0), 4).ranks == 4


def test_no_wider_than_there_are_samples_or_than_is_allowed():
    assert choose(leg(0, 1e4), 16, Table(most=3)).ranks == 3


def test_the_prior_says_what_is_to_come():
    large, small = [trial(-1, 1000.0)], [trial(-2, 1.0)]
    busy = choose(leg(0, 1000.0), 4, prior=[t.candidate for t in large], left=12)
    alone = choose(leg(0, 1000.0), 4, prior=[t.candidate for t in small], left=12)
    assert busy.ranks == 1
    assert alone.ranks > 1


def test_measured_seconds_correct_the_forecast():
    ended = [replace(trial(n, 1.0), state=State.COMPLETED, seconds=100.0, extra={FORECAST: 1.0},
                     reports=(Report(1, {}),)) for n in range(1, 4)]  # fmt: skip
    forecast = Table()
    assert forecast.correction(ended)(1.0, 1) == pytest.approx(100.0, rel=2e-3)
    assert choose(leg(0, 1.0), 4).ranks == 1  # a second: not worth it
    assert choose(leg(0, 1.0), 4, forecast, ended=ended).ranks == 4  # it is a hundred


def test_wide_trials_are_not_forgotten_among_many_narrow_ones():
    def ended(number, width, seconds):
        return replace(trial(number, 1.0), state=State.COMPLETED, width=width, seconds=seconds,
                       extra={FORECAST: 1.0}, reports=(Report(1, {}),))  # fmt: skip

    wide = [ended(number, 2, 1.3) for number in range(4)]
    narrow = [ended(number, 1, 1.0) for number in range(4, 60)]
    assert Table().correction([*wide, *narrow])(1.0, 2) == pytest.approx(1.3, rel=0.02)


def test_a_trial_that_has_trained_is_foretold_by_its_own_epochs():
    forecast = Table(serial=0.0)
    done = trial(0, 1.0, epochs=9, width=2, reports=(Report(1, {}, 40.0), Report(2, {}, 30.0)))
    # 30 s an epoch on two workers, so 60 on one and 15 on four; 7 epochs are left.
    assert [forecast.seconds(Leg(done, 9), width) for width in (1, 2, 4)] == pytest.approx([420, 210, 105])


def test_the_last_epoch_is_that_of_the_leg_it_was_trained_in():
    reports = (Report(1, {}, 60.0), Report(2, {}, 60.0))
    done = trial(0, 1.0, epochs=9, width=4, reports=reports, extra={WIDTHS: "1@0,4@2"})
    assert [width_at(done, epoch) for epoch in (1, 2, 3)] == [1, 1, 4]
    assert Table(serial=0.0).seconds(Leg(done, 9), 4) == pytest.approx(7 * 15)  # 60 s on one rank are 15 on four


def test_a_guess_is_not_trusted_before_a_trial_has_ended():
    forecast = Table()
    forecast.machine = preset("guess-cpu")
    assert "not calibrated" in choose(leg(0, 1e4), 4, forecast).reason
    ended = [
        replace(trial(1, 1.0), state=State.COMPLETED, seconds=1.0, extra={FORECAST: 1.0}, reports=(Report(1, {}),))
    ]
    assert choose(leg(0, 1e4), 4, forecast, ended=ended).ranks == 4


def test_one_worker_has_no_choice():
    assert choose(leg(0, 1e4), 1).ranks == 1
    assert choose(leg(0, 1e4), 1).reason == "one worker"


def test_a_network_that_the_model_cannot_count_trains_alone():
    class Blind(Table):
        def epoch_seconds(self, trial, width):
            return 0.0

    assert choose(leg(0, 1e4), 4, Blind()).reason == "the model cannot count this network"


SECONDS = st.floats(0.1, 1e5)


@settings(max_examples=60, deadline=None)
@given(
    seconds=SECONDS,
    free=st.integers(0, 12),
    running=st.lists(st.tuples(SECONDS, st.integers(1, 4), st.floats(0, 1e5)), max_size=6),
    waiting=st.lists(SECONDS, max_size=6),
    left=st.integers(0, 40),
    serial=st.floats(0, 1),
)
def test_every_answer_can_be_had_and_is_the_same_again(seconds, free, running, waiting, left, serial):
    legs = [leg(n + 1, one, elapsed=gone, width=width) for n, (one, width, gone) in enumerate(running)]
    situation = Situation(free, legs, [leg(50 + n, one) for n, one in enumerate(waiting)], left)
    auto = Auto(Table(serial=serial))
    found = auto.choose(leg(0, seconds), situation)
    assert 1 <= found.ranks <= max(1, situation.workers)
    assert found == auto.choose(leg(0, seconds), situation)
    assert found.reason
    if serial == 1:
        assert found.ranks == 1


def test_the_model_foretells_epochs_as_batches_are_cut():
    # 1,000 samples in batches of 64 are 16 steps of 63: a linear layer of 4 x 4 and a head of 4 x 2, at 1e9 a second.
    forecast = Forecast(machine_of(link=Link(1e30)), shape=(4,), outputs=2, samples=1000, batch=64)
    topology = chain(op("linear", features=4, norm=False))
    one = Trial(0, Candidate(Decisions(), topology, Origin.SAMPLE), State.RUNNING, 3)
    seconds = 16 * 63 * (2 * 16 + 3 * 8) / 1e9
    assert forecast.epoch_seconds(one, 1) == pytest.approx(seconds)
    assert forecast.epoch_seconds(one, 2) == pytest.approx(seconds * 32 / 63)
    assert forecast.seconds(Leg(one, 3), 1) == pytest.approx(3 * seconds)
    assert forecast.most == 32
