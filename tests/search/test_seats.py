"""Who gets how many workers: what a trial says of its widths."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search.seats import Seats
from detol.search.widths import WIDTHS, Width, width_at
from detol.spaces.decisions import Decisions

NETWORK = Candidate(Decisions(), chain(op("linear", features=2)), Origin.SAMPLE)


def trial(epochs, width=1, **extra):
    reports = tuple(Report(epoch, {}) for epoch in range(1, epochs + 1))
    return replace(Trial(0, NETWORK, State.RUNNING, 9, width=width, extra=extra), reports=reports)


def seated(one, ranks):
    """Return a trial as it starts when the policy wants so many ranks."""
    ledger = SimpleNamespace(running={}, waiting=[], resting={}, ended=[])
    task = SimpleNamespace(widths=SimpleNamespace(choose=lambda *_: Width(ranks, "as told")))
    fidelity = SimpleNamespace(milestone=lambda _: 0)
    clock = SimpleNamespace(now=lambda: 0.0)
    return Seats(task, SimpleNamespace(free=lambda: 8), ledger, fidelity, clock).choose(one, 0.0)


@pytest.mark.parametrize(
    ("before", "ranks", "after"),
    [
        (trial(0), 4, ""),
        (trial(3), 1, ""),
        (trial(3), 4, "1@0,4@3"),
        (trial(6, 4, widths="1@0,4@3"), 2, "1@0,4@3,2@6"),
        # A leg was lost: it is gone over again, at its old width or at another.
        (trial(3, 4, widths="1@0,4@3"), 4, "1@0,4@3"),
        (trial(3, 4, widths="1@0,4@3"), 2, "1@0,2@3"),
        (trial(3, 4, widths="1@0,4@3"), 1, ""),
        (trial(3, 2, widths="1@0,4@3,2@6"), 2, "1@0,2@3"),
        # Its checkpoint was lost too.
        (trial(0, 2, widths="1@0,4@3,2@6"), 2, ""),
    ],
)
def test_a_trial_tells_the_widths_of_the_legs_that_count(before, ranks, after):
    found = seated(before, ranks)
    assert (found.width, found.extra.get(WIDTHS, "")) == (ranks, after)
    assert width_at(found, before.epoch + 1) == ranks
