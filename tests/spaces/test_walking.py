import pytest

from detol.errors import SpaceError
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.walking import checked, first_open, is_open, validate

DEPTH = Choice("depth", (1, 2, 3), ordered=True)
SECOND = Choice("op_2", ("conv", "pool"), when={"depth": (2, 3)})
KERNEL = Choice("kernel_2", (3, 5), when={"op_2": ("conv",)})
CHOICES = (DEPTH, SECOND, KERNEL)


def test_a_choice_is_open_when_all_its_conditions_hold() -> None:
    assert is_open(DEPTH, {})
    assert not is_open(SECOND, {"depth": 1})
    assert is_open(SECOND, {"depth": 3})
    # A condition on a choice that is itself closed does not hold.
    assert not is_open(KERNEL, {"depth": 1})


def test_first_open_follows_the_order_of_the_choices() -> None:
    assert first_open(CHOICES, {}) is DEPTH
    assert first_open(CHOICES, {"depth": 2}) is SECOND
    assert first_open(CHOICES, {"depth": 2, "op_2": "conv"}) is KERNEL
    assert first_open(CHOICES, {"depth": 2, "op_2": "pool"}) is None
    assert first_open(CHOICES, {"depth": 1}) is None


def test_checked_puts_decisions_in_order_and_keeps_the_declared_type() -> None:
    whole = checked("s", CHOICES, {"kernel_2": 3.0, "op_2": "conv", "depth": 2})
    assert list(whole) == ["depth", "op_2", "kernel_2"]
    assert type(whole["kernel_2"]) is int


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        ({}, ["'depth' is missing", "1, 2, 3"]),
        ({"depth": 2}, ["'op_2' is missing", "conv, pool"]),
        ({"depth": 4}, ["'4'", "'depth'"]),
        ({"depth": 2, "op_2": "convv"}, ["'convv'", "did you mean conv?"]),
        ({"dept": 2}, ["'dept'", "did you mean depth?"]),
        ({"depth": 1, "op_2": "conv"}, ["'op_2' is open only for depth in 2, 3"]),
    ],
)
def test_incomplete_or_closed_decisions_are_one_clear_line(decided: dict[str, str | int], words: list[str]) -> None:
    with pytest.raises(SpaceError) as caught:
        checked("s", CHOICES, decided)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("choices", "word"),
    [
        ([], "at least one choice"),
        ([DEPTH, DEPTH], "given twice"),
        ([Choice("a", ())], "at least one value"),
        ([Choice("a", "xyz")], "at least one value"),  # type: ignore[arg-type]
        ([Choice("a", (1, True))], "given twice"),
        ([Choice("a", (1, 2), before=3)], "option of 'a'.*'3'"),
        ([SECOND, DEPTH], "earlier choice"),
        ([DEPTH, Choice("b", (1,), when={"depth": (7,)})], "'7'"),
        ([Choice("a", ("x", "y")), Choice("b", (1,), when={"a": "x"})], "collection"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(choices: list[Choice], word: str) -> None:
    with pytest.raises(SpaceError, match=word) as caught:
        validate("s", choices)
    assert "\n" not in str(caught.value)


def test_decisions_are_equal_whatever_their_order() -> None:
    first, second = Decisions({"a": 1, "b": 2}), Decisions(b=2, a=1)
    assert first == second
    assert hash(first) == hash(second)
    assert first.with_("a", 3) == Decisions(a=3, b=2)
    assert first == {"a": 1, "b": 2}
