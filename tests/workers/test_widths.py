"""A training that pauses goes on at another width: the same global batches, the same curve up to rounding.

To the bit it cannot be: sums over ranks are added in another order, and batch norm that is not synchronised takes its
statistics of the samples of one rank.
"""

import itertools
from pathlib import Path

import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.elastic.local import LocalRanks
from detol.workers.train import Training

ENTRY = f"{Path(__file__).with_name('other_widths.py')}:trains"
PLAIN = chain(op("conv", channels=4, norm=False), op("conv", channels=8, stride=2, norm=False))
NORMED = chain(op("conv", channels=4), op("conv", channels=8, stride=2))
EPOCHS, SEED = 4, 5


def alone(data, topology, recipe, *, checkpoint=None, until=0):
    training = Training(topology, data, recipe, epochs=EPOCHS, seed=SEED, checkpoint=checkpoint, until=until)
    reports = [(report.epoch, dict(report.metrics)) for report in training.reports()]
    return reports, training.checkpoint() if training.paused else None


def two(data, topology, recipe, *, checkpoint=None, until=0):
    ranks = LocalRanks(2, ENTRY, data, topology, recipe, EPOCHS, SEED, checkpoint, until)
    reports, saved = [], None
    try:
        for said in ranks:
            assert not said.failure, said.failure
            if said.rank == 0 and not said.done:
                if isinstance(said.item, tuple):
                    reports.append(said.item)
                else:
                    saved = said.item
    finally:
        ranks.close()
    return reports, saved


def close(reports, others, losses):
    assert [epoch for epoch, _ in reports] == [epoch for epoch, _ in others]
    for (_, one), (_, other) in zip(reports, others, strict=True):
        for name, value in one.items():
            assert other[name] == pytest.approx(value, abs=losses if name.endswith("loss") else 0.02), name


@pytest.mark.parametrize(
    ("topology", "recipe", "losses"),
    [
        pytest.param(PLAIN, Recipe(batch_size=200, augment="crop", learning_rate=0.5), 1e-4, id="without norms"),
        pytest.param(NORMED, Recipe(batch_size=200, sync_norm=True), 1e-3, id="norms over all ranks"),
    ],
)
def test_wider_and_narrower_again_gives_the_curve_of_one_rank(digits, topology, recipe, losses):
    whole, _ = alone(digits, topology, recipe)
    first, checkpoint = alone(digits, topology, recipe, until=1)
    assert first == whole[:1]  # to the bit: the same width
    second, checkpoint = two(digits, topology, recipe, checkpoint=checkpoint, until=3)
    assert [epoch for epoch, _ in second] == [2, 3]
    assert second != whole[1:3]
    close(second, whole[1:3], losses)
    last, _ = alone(digits, topology, recipe, checkpoint=checkpoint)
    close(last, whole[3:], losses)
    # A curve that had missed the pause would be elsewhere: an epoch moves the loss by more than that.
    moved = [abs(a["val_loss"] - b["val_loss"]) for (_, a), (_, b) in itertools.pairwise(whole)]
    assert min(moved) > 5 * losses
