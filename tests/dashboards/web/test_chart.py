"""Axes, charts, links and words of the pages."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol.dashboards.web import links, words
from detol.dashboards.web.axis import Axis, short
from detol.dashboards.web.chart import Dot, Line, chart, sparkline

FINITE = st.floats(-1e9, 1e9)
POSITIVE = st.floats(1e-6, 1e12)


@given(st.lists(FINITE, max_size=8))
def test_a_linear_axis_holds_its_values_and_round_ticks(values):
    axis = Axis.around(values, "x")
    assert axis.low < axis.high
    assert all(axis.low <= value <= axis.high for value in values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert ticks == sorted(ticks)
    assert all(0 <= axis.place(tick) <= 1 for tick in ticks)


@given(st.lists(POSITIVE, max_size=8))
def test_a_logarithmic_axis_places_equal_ratios_equally(values):
    axis = Axis.around(values, "x", log=True)
    assert all(axis.low <= value <= axis.high for value in values)
    middle = (axis.low * axis.high) ** 0.5
    assert axis.place(middle) == pytest.approx(0.5)
    assert len(axis.ticks()) >= 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98123, "0.9812"),
        (12_345, "12.3k"),
        (999_960, "1M"),
        (1.5e6, "1.5M"),
        (0, "0"),
        (2e-5, "2.0e-05"),
        (-3e9, "-3G"),
    ],
)
def test_short_numbers(value, text):
    assert short(value) == text


def test_a_chart_is_well_formed_and_escaped():
    axis = Axis.around([0, 1], 'a "b" <c>')
    drawn = chart(
        "<name>",
        axis,
        axis,
        lines=[Line([(0, 0), (1, 1)], "front", "<title>", 'x"y')],
        dots=[Dot(0.5, 0.5, "best", "<b>", "/trial?a=1&b=2", key=True)],
    )
    root = ET.fromstring(drawn)
    assert root.get("aria-label") == "<name>"
    assert [title.text for title in root.iter("title")] == ["<title>", "<b>"]


def test_dots_on_one_another_are_one_that_says_so():
    axis = Axis.around([0, 1], "")
    dots = [Dot(0.5, 0.5, "completed", f"trial {number}") for number in range(1000)]
    root = ET.fromstring(chart("many", axis, axis, dots=dots))
    circles = list(root.iter("circle"))
    assert len(circles) == 1
    assert circles[0][0].text == "trial 0 (and 999 more here)"


def test_an_empty_chart_says_so():
    axis = Axis.around([], "")
    assert "nothing yet" in chart("none", axis, axis, empty="nothing yet")


def test_sparklines():
    assert sparkline([]) == ""
    assert ET.fromstring(sparkline([1.0, 1.0])).get("aria-label") == "from 1 to 1"


def test_links_keep_any_name():
    name = "a/b ?&=#%2e.. é"
    from urllib.parse import parse_qs, urlsplit

    assert parse_qs(urlsplit(links.search_url(name)).query) == {"name": [name]}
    assert links.url("/x", a="", b=None, c=0) == "/x?c=0"
    assert links.changed("/x", {"a": "1", "page": "3"}, a="2") == "/x?a=2"
    assert links.changed("/x", {"a": "1", "page": "3"}, page=4) == "/x?a=1&page=4"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.44, "0.4 s"),
        (12, "12 s"),
        (185, "3 min 5 s"),
        (7200, "2 h"),
        (90_000, "1 d 1 h"),
        (None, "\u2013"),
        (3599.6, "1 h"),
    ],
)
def test_durations(seconds, text):
    assert words.duration(seconds) == text


def test_words():
    assert words.metric(0.98765) == "0.9877"
    assert words.metric(float("nan")) == words.NOTHING
    assert words.moment("2026-11-28T02:17:04.000Z") == "28 Nov 02:17"
    assert words.plain_value({"a": True, "b": [1, 2.50]}) == "a=yes, b=1, 2.5"
    assert words.amount(9_999) == "9,999"
    assert words.amount(10_001) == "10k"


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8))
def test_an_axis_of_whole_numbers_has_no_tick_between_them(values):
    axis = Axis.around(values, "epoch", whole=True)
    assert axis.ticks()
    assert all(tick == int(tick) for tick in axis.ticks())


def test_three_epochs_have_three_ticks():
    assert Axis.around([1, 3], "epoch", whole=True).ticks() == [1, 2, 3]
