"""The contract of policies of widths, over every implementation."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.scaling.auto import Auto
from detol.scaling.forecast import Forecast
from detol.scaling.presets import preset
from detol.search.protocols import Widths
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.widths import FORECAST, Leg, Situation
from detol.spaces.decisions import Decisions

TOPOLOGIES = [chain(*[op("conv", channels=8 * size, kernel=3)] * 3) for size in (1, 4, 16)]


def forecast(machine):
    return Forecast(preset(machine), shape=(3, 16, 16), outputs=10, samples=50_000, batch=128)


POLICIES = {
    "auto": lambda: Auto(forecast("fdr-k80")),
    "auto, not calibrated": lambda: Auto(forecast("guess-cpu")),
    "auto, with a prior": lambda: Auto(forecast("fdr-titanx"), prior=lambda: [candidate(0), candidate(2)], least=0.0),
}


def candidate(size):
    return Candidate(Decisions(size=size), TOPOLOGIES[size], Origin.SAMPLE)


def trial(number, size, width=1, done=0, **changes):
    reports = tuple(Report(epoch, {}, 30.0 * (1 + size)) for epoch in range(1, done + 1))
    return Trial(number, candidate(size), State.RUNNING, 9, width=width, reports=reports, **changes)


@st.composite
def situations(draw):
    """Draw a leg that has a worker next, and what goes on around it."""
    sizes, dones = st.integers(0, 2), st.integers(0, 8)
    running = [
        Leg(trial(10 + n, draw(sizes), draw(st.integers(1, 5)), draw(dones)), 9, draw(st.floats(0, 1e4)))
        for n in range(draw(st.integers(0, 5)))
    ]
    waiting = [Leg(trial(50 + n, draw(sizes), done=draw(dones)), 9) for n in range(draw(st.integers(0, 5)))]
    ended = [
        Trial(100 + n, candidate(0), State.COMPLETED, 9, seconds=90.0, reports=(Report(9, {}),), extra={FORECAST: 4.0})
        for n in range(draw(st.integers(0, 3)))
    ]
    left = draw(st.one_of(st.integers(0, 100).map(float), st.just(math.inf)))
    done = draw(dones)
    leg = Leg(trial(0, draw(sizes), done=done), draw(st.integers(done + 1, 9)))
    return leg, Situation(draw(st.integers(1, 20)), running, waiting, left, ended)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=40, deadline=None)
@given(drawn=situations())
def test_answers_can_be_had_and_depend_on_the_arguments_alone(name, drawn):
    leg, situation = drawn
    policy = POLICIES[name]()
    found = policy.choose(leg, situation)
    assert isinstance(found.ranks, int)
    assert 1 <= found.ranks <= situation.workers
    if not situation.running:
        assert found.ranks <= situation.free
    assert found.reason
    assert "\n" not in found.reason
    assert found.forecast >= 0
    assert policy.choose(leg, situation) == found == POLICIES[name]().choose(leg, situation)


@pytest.mark.parametrize("name", POLICIES)
def test_they_keep_the_protocol(name):
    assert isinstance(POLICIES[name](), Widths)
    leg = Leg(trial(0, 2), 9)
    assert POLICIES[name]().choose(leg, Situation(1)).ranks == 1
