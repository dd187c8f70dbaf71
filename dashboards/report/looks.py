"""How marks look: a colour on light and on dark ground, the form of a point, the width of a line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """One look.

    Args:
        light, dark: colour on either ground, as ``#rrggbb``.
        symbol: of a point: circle, ring, cross, square, diamond.
        size: of a point, in pixels.
        width: of a line, in pixels.
        opacity: in (0, 1].
        dash: whether a line is dashed.
    """

    light: str
    dark: str
    symbol: str = "circle"
    size: float = 7
    width: float = 1.5
    opacity: float = 1.0
    dash: bool = False


LOOKS = {
    "completed": Look("#4c6ef5", "#8ea3ff", opacity=0.85),
    "stopped": Look("#868e96", "#98a1ab", "ring", opacity=0.9),
    "paused": Look("#b7791f", "#e6b450", "square"),
    "running": Look("#2b8a3e", "#69db7c", "ring"),
    "failed": Look("#c92a2a", "#ff8787", "cross"),
    "reused": Look("#9c36b5", "#d79be6", "diamond"),
    "reference": Look("#0b7285", "#5cc3d6", "diamond", size=9),
    "best": Look("#d9480f", "#ff9a5c", size=9, width=2.4),
    "front": Look("#d9480f", "#ff9a5c", size=9, width=1.6),
    "random": Look("#0b7285", "#5cc3d6", width=1.6, dash=True),
    "limit": Look("#5f6873", "#9aa4af", width=1.2, dash=True),
    "curve": Look("#4c6ef5", "#8ea3ff", width=1, opacity=0.5),
    "dim": Look("#868e96", "#98a1ab", width=1, opacity=0.45),
    "link": Look("#5f6873", "#9aa4af", width=1.1, opacity=0.7),
}
"""By name. ``GROUND`` has the colours of what lies behind and around the marks."""

GROUND = {
    "ink": ("#1b1f24", "#e4e7ea"),
    "dim": ("#5f6874", "#9aa4b0"),
    "line": ("#e3e4e0", "#2a2f36"),
    "card": ("#ffffff", "#191c20"),
}


def faint(colour: str, share: float) -> str:
    """Return a colour of ``#rrggbb`` that lets what lies behind shine through."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"


BAND = 0.16
"""How much of its colour a band, or what is filled, has."""


def dark_of() -> dict[str, str]:
    """Return each colour on light ground with its counterpart on dark ground."""
    pairs = {look.light: look.dark for look in LOOKS.values()} | dict(GROUND.values())
    return pairs | {faint(light, BAND): faint(dark, BAND + 0.06) for light, dark in pairs.items()}
