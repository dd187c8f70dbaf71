from hypothesis import given, settings
from hypothesis import strategies as st

from detol.spaces.counting import count, every
from detol.spaces.decisions import Choice


@st.composite
def declarations(draw: st.DrawFn) -> list[Choice]:
    choices: list[Choice] = []
    for number in range(draw(st.integers(1, 6))):
        options = tuple(range(draw(st.integers(1, 3))))
        earlier = draw(st.sets(st.sampled_from(choices), max_size=2)) if choices else set()
        when = {c.name: tuple(draw(st.sets(st.sampled_from(c.options), min_size=1))) for c in sorted(earlier, key=str)}
        choices.append(Choice(f"c{number}", options, when=when))
    return choices


@settings(max_examples=100, deadline=None)
@given(declarations())
def test_the_count_is_the_length_of_the_list_and_nothing_is_listed_twice(choices: list[Choice]) -> None:
    listed = list(every(choices))
    assert len(set(listed)) == len(listed) == count(choices)


def test_independent_choices_count_as_their_product() -> None:
    assert count([Choice(str(n), tuple(range(5))) for n in range(6)]) == 5**6
    assert count([Choice(str(n), (0, 1)) for n in range(200)]) == 2**200


def test_layers_that_open_with_depth_count_as_a_geometric_sum() -> None:
    choices = [Choice("depth", tuple(range(1, 31)))]
    choices += [Choice(f"op_{n}", (1, 2, 3), when={"depth": tuple(range(n, 31))}) for n in range(1, 31)]
    assert count(choices) == sum(3**depth for depth in range(1, 31))


def test_a_count_that_has_to_tell_too_many_situations_apart_is_none() -> None:
    bits = [Choice(f"b{n}", (0, 1)) for n in range(30)]
    last = [Choice(f"c{n}", (0, 1), when={f"b{n}": (1,)}) for n in range(30)]
    assert count([*bits, *last], states=1000) is None
    # The same sequences, each condition right behind what it asks about: 3 ways for each pair.
    assert count([choice for pair in zip(bits, last, strict=True) for choice in pair]) == 3**30


def test_listing_is_lazy_and_the_last_choice_changes_fastest() -> None:
    listing = every([Choice(str(n), (0, 1)) for n in range(500)])
    first, second = next(listing), next(listing)
    assert set(first.values()) == {0}
    assert [name for name in first if first[name] != second[name]] == ["499"]
