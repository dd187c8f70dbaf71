"""What candidates cost: learnt from seconds, and used to rank."""

import numpy as np
import pytest

from detol.embedding.graph_features import Floats
from detol.errors import UsageError
from detol.search.records import Report, State, Trial
from detol.spaces import catalogue
from detol.strategies.guided.models import PricedModel, Rows
from detol.strategies.guided.prices import prices
from detol.strategies.guided.strategy import Guided


def test_a_power_law_is_recovered() -> None:
    # seconds = 3 * size^0.8: linear in the logarithm of the size.
    sizes = np.exp(np.random.default_rng(0).normal(size=60))
    figures = ((np.log(sizes) - np.log(sizes).mean()) / np.log(sizes).std())[:, None].astype(np.float32)
    seen = list(range(40))
    found = prices(figures, seen, [3 * sizes[row] ** 0.8 for row in seen])
    inside = (sizes > sizes[:40].min()) & (sizes < sizes[:40].max())
    assert np.ptp((np.log(found) - 0.8 * np.log(sizes))[inside]) < 0.1


def test_predictions_stay_near_what_was_seen() -> None:
    figures = np.asarray([[0.0], [1.0], [50.0]], np.float32)
    found = prices(figures, [0, 1], [1.0, 4.0])
    assert found[2] <= 2 * 4.0 / 2.0 + 1e-6  # twice the greatest, in units of the geometric mean
    assert np.allclose(prices(figures, [1], [7.0]), 1.0)  # one trial tells no slope


def test_improvement_is_divided_by_the_price() -> None:
    class Fixed:
        def improvement(self) -> tuple[Rows, Floats]:
            return np.asarray([2, 0]), np.asarray([0.6, 0.5], np.float32)

        def believe(self, row: int) -> None:
            raise AssertionError(row)

    rows, values = PricedModel(Fixed(), np.asarray([1.0, 9.0, 3.0], np.float32)).improvement()
    assert list(rows) == [2, 0]
    assert np.allclose(values, [0.2, 0.5])


def _mean_depth(thrift: float) -> float:
    """Scores say nothing here and seconds rise with the depth: return the mean depth of 24 proposals."""
    strategy, rng, depths = Guided(catalogue.load("tabular"), seed=0, thrift=thrift), np.random.default_rng(0), []
    for number in range(24):
        (candidate,) = strategy.ask(1)
        depth = int(candidate.decisions["depth"])
        depths.append(depth)
        report = Report(1, {"val_accuracy": 0.5}, seconds=float(4**depth))
        score = float(rng.normal())
        told = Trial(number, candidate, State.COMPLETED, 1, reports=(report,), curve=(score,), scores=(score,))
        strategy.tell([told])
    return float(np.mean(depths))


def test_thrift_prefers_what_trains_quickly() -> None:
    assert _mean_depth(1.0) < _mean_depth(0.0)


def test_thrift_is_a_share() -> None:
    with pytest.raises(UsageError, match=r"thrift in \[0, 1\], got 2"):
        Guided(catalogue.load("tabular"), thrift=2)
