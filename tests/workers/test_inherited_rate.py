"""The schedule of a training that starts from a parent's weights: two low parts, then the recipe's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.search.recipe import Recipe
from detol.workers.optim import learning_rate
from detol.workers.start import PEAKS, SETTLING, inherited_rate

RECIPE = Recipe(learning_rate=1.0, schedule="one_cycle", warmup=0.2)


def rates(epochs: int, each: int = 10, recipe: Recipe = RECIPE) -> list[float]:
    steps = epochs * each
    return [inherited_rate(recipe, step, steps, epochs) for step in range(steps)]


def test_an_epoch_that_hardly_moves_then_low_rates_and_then_as_from_scratch() -> None:
    """Of 20 epochs: one, five, and the fourteen that are left."""
    found = rates(20)
    for peak, first, behind in ((PEAKS[0], 0, 10), (PEAKS[1], 10, 60), (1.0, 60, 200)):
        part = [peak * learning_rate(RECIPE, step, behind - first) for step in range(behind - first)]
        assert found[first:behind] == pytest.approx(part)
        assert max(part) == pytest.approx(peak)


@pytest.mark.parametrize(("epochs", "ends"), [(1, [0.15, 0.3]), (3, [0.45, 0.9]), (10, [1, 3]), (27, [1, 8.1])])
def test_the_rate_is_low_again_after_each_part(epochs: int, ends: list[float]) -> None:
    """It falls to nothing at the end of a part and starts to rise from there; in epochs, in short schedules less."""
    found = rates(epochs, each=100)
    rising = [step for step in range(1, len(found) - 1) if found[step - 1] > found[step] < found[step + 1]]
    assert rising == [pytest.approx(100 * end, abs=2) for end in ends]
    assert max(found) == pytest.approx(1.0)


@given(st.integers(1, 60), st.integers(1, 50), st.sampled_from(["cosine", "one_cycle", "constant"]))
def test_any_schedule_is_settled_first_and_then_gone_through_whole(epochs: int, each: int, schedule: str) -> None:
    recipe = Recipe(learning_rate=0.5, schedule=schedule, warmup=0.1)
    found = rates(epochs, each, recipe)
    end = int(SETTLING * len(found))
    assert all(0 < rate <= 0.5 for rate in found)
    assert all(rate <= PEAKS[-1] * 0.5 + 1e-12 for rate in found[:end])
    assert found[end:] == [learning_rate(recipe, step, len(found) - end) for step in range(len(found) - end)]
