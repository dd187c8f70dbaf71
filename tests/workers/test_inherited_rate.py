"""The schedule of a training that starts from a parent's weights: short low cycles, then the recipe's own."""

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


def test_cycles_are_of_one_epoch_two_and_four_and_then_as_from_scratch() -> None:
    """Of 20 epochs, 7 are at most 36 %; the next cycle would end at 15."""
    found = rates(20)
    for peak, first, behind in ((PEAKS[0], 0, 10), (PEAKS[1], 10, 30), (PEAKS[2], 30, 70), (1.0, 70, 200)):
        cycle = [peak * learning_rate(RECIPE, step, behind - first) for step in range(behind - first)]
        assert found[first:behind] == pytest.approx(cycle)
        assert max(cycle) == pytest.approx(peak)


@pytest.mark.parametrize(("epochs", "cycles"), [(3, [1]), (8, [1]), (9, [1, 2]), (27, [1, 2, 4]), (50, [1, 2, 4, 8])])
def test_the_rate_is_low_again_after_each_cycle(epochs: int, cycles: list[int]) -> None:
    """It falls to nothing at the end of a cycle and starts to rise from there."""
    found = rates(epochs, each=40)
    ends, end = [], 0
    for length in cycles:
        end += 40 * length
        ends.append(end)
    rising = [step for step in range(1, len(found) - 1) if found[step - 1] > found[step] < found[step + 1]]
    assert all(any(abs(step - end) <= 1 for step in rising) for end in ends)
    assert len(rising) == len(cycles)
    assert max(found) == pytest.approx(1.0)


@given(st.integers(1, 60), st.integers(1, 50), st.sampled_from(["cosine", "one_cycle", "constant"]))
def test_any_schedule_is_settled_first_and_then_gone_through_whole(epochs: int, each: int, schedule: str) -> None:
    recipe = Recipe(learning_rate=0.5, schedule=schedule, warmup=0.1)
    found = rates(epochs, each, recipe)
    assert all(0 < rate <= 0.5 for rate in found)
    settled = sum(rate <= PEAKS[-1] * 0.5 + 1e-12 for rate in found[: round(SETTLING * len(found))])
    assert (
        settled >= int(SETTLING * len(found) / 3) - 1
    )  # at least a third of what may be: a cycle may not fit any more
