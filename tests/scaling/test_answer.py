import json

import pytest

from detol.errors import UsageError
from detol.graph.cost import convolution
from detol.scaling.answer import STRONG, USEFUL, WEAK, plan
from detol.scaling.link import Link
from detol.scaling.picture import draw
from detol.scaling.step import PARTS
from detol.scaling.work import Work

from .conftest import machine_of

WORK = Work("one", (convolution(1000, (1000,)),), sample_bytes=1000, sample_values=1000)


def test_an_ideal_machine_scales_until_the_batch_ends_it():
    found = plan(WORK, machine_of(link=Link(1e30)), batch=64)
    assert [row.ranks for row in found.rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert [row.efficiency for row in found.rows[:7]] == pytest.approx([1.0] * 7)
    assert found.useful == found.fastest == found.by_batch == 64
    assert found.stalls == 64
    assert found.bound == "the batch"


def test_efficiency_is_that_of_the_closed_form():
    # T(1) = 0.128 s and T(n) = T(1) / n + 2 (n - 1) / n * 4 ms: efficiency 1/2 where 2 (n - 1) * 4 ms = T(1).
    found = plan(WORK, machine_of(), batch=64, widths=[1, 2, 16, 17, 18])
    times = {row.ranks: row.step.seconds for row in found.rows}
    assert times[1] == pytest.approx(0.128)
    assert times[16] == pytest.approx(0.128 / 16 + 2 * 15 / 16 * 0.004)
    efficiency = {row.ranks: row.efficiency for row in found.rows}
    assert efficiency[16] == pytest.approx(0.128 / 16 / times[16])
    assert efficiency[16] > USEFUL > efficiency[18]
    assert found.bound == "communication"


def test_weak_scaling_keeps_the_samples_of_each_rank():
    found = plan(WORK, machine_of(), batch=64, mode=WEAK, widths=[1, 4])
    assert [row.step.local for row in found.rows] == [64, 64]
    assert found.rows[1].efficiency == pytest.approx(0.128 / (0.128 + 2 * 3 / 4 * 0.004))
    assert found.rows[1].speedup == pytest.approx(4 * found.rows[1].efficiency)
    assert (found.mode, found.by_batch) == (WEAK, None)


def test_a_machine_of_few_ranks_is_not_asked_for_more():
    found = plan(WORK, machine_of(ranks=4), batch=64)
    assert [row.ranks for row in found.rows] == [1, 2, 4]
    assert found.useful <= 4
    with pytest.raises(UsageError, match="has 4 ranks, got --ranks 5"):
        plan(WORK, machine_of(ranks=4), batch=64, widths=[1, 5])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"batch": 0}, "--batch must be >= 1"), ({"widths": [0]}, ">= 1, got 0"), ({"compression": 0.0}, "--compression")],
)
def test_bad_input_is_refused(change, message):
    with pytest.raises(UsageError, match=message):
        plan(WORK, machine_of(), **{"batch": 8, **change})


def test_where_the_network_was_timed_the_model_says_what_changes():
    # Twice as long as foretold on one rank with the whole batch, three times with a quarter of it.
    timed = {64: 2 * 0.128, 16: 3 * 0.032}
    found = plan(WORK, machine_of(), batch=64, widths=[1, 2, 4], measured=timed)
    ring = [0.0, 2 * 1 / 2 * 0.004, 2 * 3 / 4 * 0.004]
    computed = [2 * 0.128, 2 * 0.064, 3 * 0.032]  # of widths that were not timed as of the nearest one
    assert [row.step.seconds for row in found.rows] == pytest.approx(
        [a + b for a, b in zip(ring, computed, strict=True)]
    )


def test_the_answer_is_json():
    found = json.loads(json.dumps(plan(WORK, machine_of(), batch=64, widths=[1, 2]).as_dict()))
    assert found["largest_useful_width"] >= 1
    assert found["mode"] == STRONG
    row = found["rows"][1]
    assert row["step_seconds"] == pytest.approx(sum(row[f"{part.replace(' ', '_')}_seconds"] for part in PARTS))
    assert row["bytes_sent"] == 4_000_000


@pytest.mark.parametrize("name", ["scaling.png", "scaling.svg"])
def test_the_picture_has_linear_axes_and_the_ideal(name, tmp_path):
    plans = [plan(WORK, machine_of(), batch=64, mode=mode) for mode in (STRONG, WEAK)]
    path = draw(plans, tmp_path / name)
    assert path.stat().st_size > 5000
    if name.endswith("svg"):
        assert "ideal" in path.read_text()


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    plans = [plan(WORK, machine_of(), batch=64)]
    for path, message in ((tmp_path / "x.txt", "a picture ends in"), (tmp_path / "no" / "x.png", "no directory")):
        with pytest.raises(UsageError, match=message):
            draw(plans, path)
