import pytest

from detol.dashboards.tables import cell, show


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.98765, "0.9877"),
        (-0.5, "-0.5000"),
        (1234.5, "1,234.5000"),
        (1234567.8, "1,234,568"),
        ("plain", "plain"),
        ([1, "a", None], "1, a, "),
        ({"x": 0.25, "y": [1000]}, "x=0.2500, y=1,000"),
    ],
)
def test_a_value_as_a_person_reads_it(value, text) -> None:
    assert cell(value) == text


@pytest.mark.parametrize("terminal", [False, True])
def test_values_are_shown_under_their_keys(screen, terminal) -> None:
    console = screen(terminal=terminal)
    show(
        console,
        [
            {"trial": "a/0", "multiply_adds": 12345, "value": 0.5},
            {"trial": "b/11", "multiply_adds": None, "value": 0.25},
        ],
    )
    lines = [line.split() for line in console.text.splitlines() if line.strip()]
    assert lines[0] == ["trial", "multiply", "adds", "value"]
    assert ["a/0", "12,345", "0.5000"] in lines
    assert ["b/11", "0.2500"] in lines


def test_rows_of_different_keys_stand_under_their_own(screen) -> None:
    console = screen()
    show(console, [{"a": "one", "c": "two"}, {"b": "three", "c": "four", "a": "five"}])
    head, first, second = [line for line in console.text.splitlines() if set(line) & set("abceo")]
    place = {key: head.index(key) for key in "abc"}
    assert (first.index("one"), first.index("two")) == (place["a"], place["c"])
    assert [second.index(word) for word in ("five", "three", "four")] == [place[key] for key in "abc"]


def test_numbers_stand_to_the_right_and_text_to_the_left(screen) -> None:
    console = screen()
    show(console, [{"name": "a", "count": 1}, {"name": "long one", "count": 1000}])
    first, second = [line for line in console.text.splitlines() if "1" in line]
    assert first.index("1") == second.index("1,000") + 4
    assert first.index("a") == second.index("long")


def test_markup_in_rows_keys_titles_and_empty_texts_is_shown_as_it_is(screen) -> None:
    console = screen()
    show(console, [{"[b]key[/b]": "[red]name[/red]", "list": ["[i]", "[/i]"], "odd": "[/]"}], title="[bold]title")
    text = console.take()
    for part in ("[b]key[/b]", "[red]name[/red]", "[i], [/i]", "[/]", "[bold]title"):
        assert part in text
    show(console, [], empty="[u]nothing[/u]")
    assert console.take() == "[u]nothing[/u]\n"


def test_what_does_not_fit_is_folded_and_not_cut(screen) -> None:
    console = screen(width=24)
    digest = "0123456789abcdef" * 4
    show(console, [{"digest": digest}])
    assert "".join(console.text.split()).endswith(digest)
