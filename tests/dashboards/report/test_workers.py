"""Utilisation and savings, counted by hand and by conservation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.dashboards.report import sections, workers
from detol.dashboards.report.facts import BREAK, searching

from .conftest import moment


def test_when_each_trial_trained(every_kind):
    # 3 rested for good after 6 s; 4 rested at epoch 3 (6 s) and trained its last 12 s before its end at 60 s;
    # 7 was answered, 5 and 6 trained nothing; 8 went on from elsewhere and took 12 s.
    spans = sorted(workers.sessions(every_kind))
    expected = [(0, 18, 1), (0, 18, 1), (18, 24, 1), (18, 24, 1), (24, 30, 1), (48, 60, 1), (51, 63, 1)]
    assert np.allclose(spans, expected)


def test_the_area_is_the_time_that_was_trained(first, every_kind):
    for facts in (first, every_kind):
        found = workers.busy(facts)
        area = float(np.dot(np.diff(found.edges), found.ranks))
        trained = sum(record.seconds * record.width for record in facts.records)
        assert area == pytest.approx(trained)
        assert found.share == pytest.approx(trained / (2 * found.edges[-1]))
        assert (found.workers, found.known) == (2, True)


def test_without_a_setting_the_workers_are_the_most_at_once(every_kind):
    found = workers.busy(replace(every_kind, workers=0))
    assert (found.workers, found.known) == (2, False)
    seated = [replace(record, seat=f"host/{record.number % 3}") for record in every_kind.records]
    found = workers.busy(replace(every_kind, workers=0, records=seated))
    assert (found.workers, found.known) == (3, True)  # the trials tell of workers 0, 1 and 2


def test_savings_by_hand(every_kind):
    row = every_kind.row
    # trained: 9 + 9 + 3 + 3 + 9 + 0 + 6; stopped: 2 and 3, 6 epochs each; answered: 9 of 7; known: 3 of 8
    (bars,) = [workers.savings_picture(every_kind).marks]
    assert [(bar.name, *bar.values) for bar in bars] == [
        ("trained", 39),
        ("spared by stopping early", 12),
        ("known from the database", 12),
    ]
    assert workers.device_seconds(every_kind) == pytest.approx(18 + 18 + 6 + 6 + 18 + 12)
    assert workers.spared_share(row) == pytest.approx(24 / (24 + 39))
    assert sections.spared(every_kind) == [
        ("trained", "7", "39", "1 min 18 s"),
        ("spared by ending trials early", "2", "12", "about 24 s"),
        ("known from the database (1 in part)", "2", "12", "24 s"),
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 300)), min_size=1, max_size=12))
def test_the_clock_leaves_out_breaks_and_nothing_else(every_kind, spans):
    made = [
        replace(every_kind.records[0], created=moment(start), ended=moment(start + length)) for start, length in spans
    ]
    clock = searching(moment(0), made)
    busy = np.zeros(5400, dtype=bool)
    for start, length in spans:
        busy[start : start + length] = True
    last = max(start + length for start, length in spans)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (~busy[:last]).astype(int), [0]])))
    idle = [b - a for a, b in zip(edges[::2], edges[1::2], strict=True)]
    # a trial that ends as it was opened cuts a gap in two without filling it: then at least as much is left
    whole = last - sum(gap for gap in idle if gap > BREAK)
    assert clock(moment(0)) == 0
    assert clock(moment(last)) >= whole - 1e-6
    if all(length for _, length in spans):
        assert clock(moment(last)) == pytest.approx(whole)
    moments = sorted({0, *(start for start, _ in spans), *(start + length for start, length in spans)})
    passed = [clock(moment(at)) for at in moments]
    assert passed == sorted(passed)


def test_pictures_of_nothing_say_so(every_kind):
    nothing = replace(every_kind, records=[every_kind.records[6]])
    assert workers.busy_picture(nothing).empty
    none = replace(every_kind.row, epochs_trained=0, epochs_saved=0, epochs_spared=0)
    assert workers.savings_picture(replace(every_kind, row=none)).empty
