"""Pictures as plotly figures."""

import sys

import pytest

from detol.dashboards.report import looks
from detol.dashboards.report.interactive import escape, figure
from detol.dashboards.report.page import pictures
from detol.dashboards.report.picture import Axis, Bars, Dots, Picture
from detol.errors import UsageError


def test_every_picture_is_a_valid_figure_with_its_values(first):
    for group in pictures(first, resamples=5).values():
        for picture in group:
            made = figure(picture)  # plotly checks every property
            dots = [mark for mark in picture.marks if isinstance(mark, Dots)]
            traces = [trace for trace in made.select_traces({"type": "scatter", "mode": "markers"}) if trace.customdata]
            assert [list(trace.y) for trace in traces] == [list(mark.y) for mark in dots]


def test_labels_are_escaped_and_lines_kept():
    assert escape("<b>a</b> & c\nd") == "&lt;b&gt;a&lt;/b&gt; &amp; c<br>d"
    odd = "<a href='http://x'>k</a>"
    picture = Picture("k", odd, Axis(odd), Axis(""), [Bars([odd], [1.0], "completed", odd, say=[odd])])
    text = figure(picture).to_json()
    assert "<a" not in text.replace("\\u003c", "<")


def test_intervals_are_distances_from_the_value():
    picture = Picture(
        "k", "t", Axis("x"), Axis(""), [Bars(["a", "b"], [0.5, 0.2], "completed", low=[0.4, -0.1], high=[0.7, 0.3])]
    )
    (bars,) = figure(picture).data
    assert list(bars.error_x.array) == pytest.approx([0.2, 0.1])
    assert list(bars.error_x.arrayminus) == pytest.approx([0.1, 0.3])


def test_an_axis_that_falls_and_one_with_bounds():
    picture = Picture("k", "t", Axis("x", falling=True), Axis("y", low=0, high=2), [Dots([1, 2], [1, 2], "best")])
    made = figure(picture)
    assert made.layout.xaxis.autorange == "reversed"
    assert tuple(made.layout.yaxis.range) == (0, 2)


@pytest.mark.parametrize(("last", "step"), [(4, 1), (12, 1), (13, None), (200, None)])
def test_few_whole_numbers_have_a_tick_each(last, step):
    picture = Picture("k", "t", Axis("x", low=0, whole=True), Axis("y"), [Dots([1, last], [1, 2], "best")])
    assert figure(picture).layout.xaxis.dtick == step


def test_without_plotly_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(UsageError, match="needs plotly: pip install plotly"):
        figure(Picture("k", "t", Axis("x"), Axis("y")))


def test_each_colour_has_one_counterpart_on_dark_ground():
    pairs = [(look.light, look.dark) for look in looks.LOOKS.values()] + list(looks.GROUND.values())
    by_light = {}
    for light, dark in pairs:
        assert by_light.setdefault(light, dark) == dark, light
    assert looks.dark_of().items() >= by_light.items()
