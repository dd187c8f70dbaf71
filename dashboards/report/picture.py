"""What a picture shows, apart from how it is drawn: marks on two axes, each with what it says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Axis:
    """One axis.

    Args:
        label: what it shows.
        log: whether equal ratios are equally far apart; all values are above 0 then.
        falling: whether it runs from the greatest value to the least.
        low, high: bounds; ``None``: by the values.
        whole: whether its values are whole numbers.
    """

    label: str
    log: bool = False
    falling: bool = False
    low: float | None = None
    high: float | None = None
    whole: bool = False


@dataclass(frozen=True)
class Dots:
    """Points; ``say`` and ``trials`` are empty, or hold a text and the number of a trial for each."""

    x: Sequence[float]
    y: Sequence[float]
    look: str
    name: str = ""
    say: Sequence[str] = ()
    trials: Sequence[int] = ()


@dataclass(frozen=True)
class Line:
    """A line, broken where a value is ``None``; ``steps``: it keeps a value until the next; ``filled``: down to 0."""

    x: Sequence[float | None]
    y: Sequence[float | None]
    look: str
    name: str = ""
    say: Sequence[str] = ()
    trials: Sequence[int] = ()
    steps: bool = False
    filled: bool = False


@dataclass(frozen=True)
class Band:
    """What lies between two lines."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    look: str
    name: str = ""


@dataclass(frozen=True)
class Bars:
    """Lying bars, one for each label from top to bottom, with intervals where ``low`` and ``high`` are given.

    ``dots``: points in place of bars, for values whose zero means nothing. ``stacked``: onto the bars before.
    """

    labels: Sequence[str]
    values: Sequence[float]
    look: str
    name: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    say: Sequence[str] = ()
    dots: bool = False
    stacked: bool = False


Mark: TypeAlias = Dots | Line | Band | Bars


@dataclass(frozen=True)
class Picture:
    """A picture.

    Args:
        key: its name in the page and of its PNG file.
        title: what it is of.
        x, y: the axes.
        marks: from back to front.
        note: how to read it, one or two sentences.
        empty: why there is nothing to show, where there is not.
    """

    key: str
    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    note: str = ""
    empty: str = ""
