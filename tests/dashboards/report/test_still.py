"""Pictures as PNG."""

import io

import numpy as np
import pytest
from PIL import Image

from detol.dashboards.report import still
from detol.dashboards.report.looks import LOOKS
from detol.dashboards.report.page import pictures
from detol.dashboards.report.picture import Axis, Band, Bars, Dots, Line, Picture

from .conftest import ODD


def opened(content):
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def has(image, colour):
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return bool((np.abs(np.asarray(image.convert("RGB")).astype(int) - wanted).max(axis=2) < 12).any())


def test_every_picture_is_drawn_in_its_colours(first, monkeypatch):
    monkeypatch.setattr(still, "RESOLUTION", 80)
    for group in pictures(first, resamples=5).values():
        for picture in group[:1]:
            image = opened(still.png(picture))
            assert image.width == round(still.WIDTH * still.RESOLUTION)
            for mark in () if picture.empty else picture.marks:
                look = LOOKS[mark.look]
                if look.opacity == 1 and not isinstance(mark, Band) and len(getattr(mark, "x", [1])):
                    assert has(image, look.light), (picture.key, mark.look)


@pytest.mark.parametrize("text", [ODD, "$x^2$ and $ alone", "\u65e5\u672c\u8a9e \U0001f600", "a\\nb_{c}^"])
def test_no_text_is_read_as_mathematics_or_stops_the_drawing(text):
    marks = [
        Bars([text], [1.0], "completed", text, low=[0.5], high=[1.5]),
        Dots([1], [0], "best", text),
        Line([0, 1], [0, 0], "best", text),
    ]
    made = Picture("key", text, Axis(text), Axis(text), marks, note=text)
    assert opened(still.png(made)).width > 100


def test_an_empty_picture_says_why():
    full = opened(still.png(Picture("k", "t", Axis("x"), Axis("y"), empty="nothing was trained here")))
    blank = opened(still.png(Picture("k", "t", Axis("x"), Axis("y"), empty=" ")))
    assert np.asarray(full).min() < np.asarray(blank)[200:].min()


def test_a_sheet_holds_all_of_them():
    parts = [Image.new("RGB", (40, height), colour) for height, colour in ((30, "red"), (50, "green"), (20, "blue"))]
    contents = []
    for part in parts:
        buffer = io.BytesIO()
        part.save(buffer, format="png")
        contents.append(buffer.getvalue())
    sheet = np.asarray(opened(still.sheet(contents, gap=10)))
    assert sheet.shape == (30 + 20 + 3 * 10, 2 * 40 + 3 * 10, 3)  # red over blue beside green
    for colour, count in (((255, 0, 0), 1200), ((0, 128, 0), 2000), ((0, 0, 255), 800)):
        assert (sheet == colour).all(axis=2).sum() == count
