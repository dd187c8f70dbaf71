import collections

import numpy as np

from detol.spaces import moves
from detol.spaces.decisions import Choice, Decisions

CHOICES = (
    Choice("width", (8, 16, 32, 64, 128), ordered=True),
    Choice("depth", (1, 2)),
    Choice("op_2", ("a", "b", "c"), when={"depth": (2,)}),
)


def test_sampling_is_uniform_over_the_options_of_each_open_choice() -> None:
    rng = np.random.default_rng(0)
    drawn = [moves.sample(CHOICES, rng) for _ in range(3000)]
    for choice, share in ((CHOICES[0], 1 / 5), (CHOICES[1], 1 / 2)):
        for option in choice.options:
            # Five standard deviations of a share of 3000 draws.
            assert abs(sum(d[choice.name] == option for d in drawn) / 3000 - share) < 5 * (share / 3000) ** 0.5
    assert {d.get("op_2") for d in drawn if d["depth"] == 1} == {None}
    assert {d.get("op_2") for d in drawn if d["depth"] == 2} == {"a", "b", "c"}


def test_mutation_of_an_ordered_choice_prefers_small_steps() -> None:
    rng = np.random.default_rng(1)
    parent = Decisions(width=8)
    steps = collections.Counter(moves.mutate(CHOICES[:1], parent, rng)["width"] for _ in range(2500))
    # 1, 1/2, 1/3, 1/4 over their sum 25/12.
    for option, share in ((16, 12 / 25), (32, 6 / 25), (64, 4 / 25), (128, 3 / 25)):
        assert abs(steps[option] / 2500 - share) < 0.05


def test_mutation_that_opens_a_choice_draws_it_and_one_that_closes_it_drops_it() -> None:
    rng = np.random.default_rng(2)
    opened = {moves.mutate(CHOICES, Decisions(width=8, depth=1), rng).get("op_2") for _ in range(200)}
    assert opened == {None, "a", "b", "c"}
    for _ in range(50):
        child = moves.mutate(CHOICES, Decisions(width=8, depth=2, op_2="c"), rng)
        assert ("op_2" in child) == (child["depth"] == 2)


def test_mutation_without_another_option_returns_the_same() -> None:
    only = (Choice("a", (1,)),)
    assert moves.mutate(only, Decisions(a=1), np.random.default_rng(0)) == Decisions(a=1)


def test_crossing_may_open_what_neither_parent_has() -> None:
    choices = (
        Choice("a", (0, 1)),
        Choice("b", (0, 1)),
        Choice("both", ("x", "y"), when={"a": (1,), "b": (1,)}),
    )
    rng = np.random.default_rng(3)
    children = [moves.cross(choices, Decisions(a=0, b=1), Decisions(a=1, b=0), rng) for _ in range(100)]
    assert {(c["a"], c["b"], c.get("both")) for c in children} == {
        (0, 0, None),
        (0, 1, None),
        (1, 0, None),
        (1, 1, "x"),
        (1, 1, "y"),
    }


def test_neighbours_differ_in_one_open_choice() -> None:
    found = list(moves.neighbours(CHOICES, Decisions(width=8, depth=1)))
    assert found == [
        Decisions(width=16, depth=1),
        Decisions(width=32, depth=1),
        Decisions(width=64, depth=1),
        Decisions(width=128, depth=1),
        Decisions(width=8, depth=2, op_2="a"),
    ]
