"""How busy the workers were, and what reuse and early stopping spared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detol.dashboards.report.facts import Facts, lasted
from detol.dashboards.report.picture import Axis, Bars, Line, Picture
from detol.results.query import SearchRow

BINS = 120


@dataclass(frozen=True)
class Busy:
    """How busy the workers were.

    Args:
        edges: seconds of the search, one more than there are values.
        ranks: that trained in each interval, on the average.
        workers: how many could.
        share: of the workers' time that was used, in [0, 1].
        known: whether ``workers`` is a setting, or told by the trials; otherwise it is the most that trained at once.
    """

    edges: Sequence[float]
    ranks: Sequence[float]
    workers: int
    share: float
    known: bool


def sessions(facts: Facts) -> list[tuple[float, float, int]]:
    """Return (start, end, ranks) of when trials trained, in seconds of the search.

    The database keeps when a trial was opened and when it ended, and how long it trained. One that never rested trained
    until its end. One that did trained from its opening to its rest, and what came after ended with it.
    """
    found = []
    for record in facts.records:
        if record.reused or not record.seconds:
            continue
        opened = facts.clock(record.created)
        ended = facts.clock(record.ended) if record.ended else opened + record.seconds
        before = record.seconds if record.rest and record.rest >= record.epoch else record.rested
        after = record.seconds - before
        if before:
            found.append((opened, opened + before, record.width))
        if after > 0:
            found.append((max(0.0, ended - after), max(ended, after), record.width))
    return found


def busy(facts: Facts) -> Busy | None:
    """Return how busy the workers were over time; ``None`` when nothing was trained here."""
    spans = sessions(facts)
    if not spans:
        return None
    starts, ends, ranks = (np.array(column, dtype=float) for column in zip(*spans, strict=True))
    last = max(float(ends.max()), 1e-9)
    edges = np.linspace(0.0, last, BINS + 1)
    inside = np.clip(
        np.minimum(ends[:, None], edges[None, 1:]) - np.maximum(starts[:, None], edges[None, :-1]), 0.0, None
    )
    used = (inside * ranks[:, None]).sum(axis=0) / (last / BINS)
    workers = facts.workers or _seen(facts) or max(1, round(float(used.max())))
    share = min(1.0, float(((ends - starts) * ranks).sum()) / (workers * last))
    return Busy(edges.tolist(), np.minimum(used, workers).tolist(), workers, share, bool(facts.workers or _seen(facts)))


def busy_picture(facts: Facts) -> Picture:
    """Return the picture of the workers' utilisation."""
    found = busy(facts)
    x_axis, y_axis = Axis("minutes of searching", low=0), Axis("ranks that train", low=0)
    if found is None:
        return Picture("workers", "workers over time", x_axis, y_axis, empty="nothing was trained here")
    unit, name = next((u, n) for u, n, least in UNITS if found.edges[-1] >= least)
    x = [edge / unit for edge in found.edges]
    y = [*found.ranks, found.ranks[-1]]
    limit = "workers" if found.known else "most at once"
    return Picture(
        "workers",
        "workers over time",
        Axis(f"{name} of searching", low=0),
        Axis("ranks that train", low=0, high=found.workers * 1.12),
        [
            Line(x, y, "completed", "busy", steps=True, filled=True),
            Line([x[0], x[-1]], [found.workers, found.workers], "limit", f"{found.workers} {limit}"),
        ],
        f"{found.share:.0%} of the time of {found.workers} workers was spent on training; the rest is starting, "
        "waiting, and the tail in which fewer trials are left than workers. When a trial trained follows from when it "
        "was opened, rested and ended; breaks of the search are left out.",
    )


UNITS = ((3600.0, "hours", 7200.0), (60.0, "minutes", 300.0), (1.0, "seconds", 0.0))


def _seen(facts: Facts) -> int:
    """Return how many workers are known to have trained; 0 where trials say nothing of it, or took several each."""
    trained = [record for record in facts.records if record.seconds and not record.reused]
    told = all(record.seat and record.width == 1 for record in trained)
    return len({record.seat for record in trained}) if told else 0


def spared_share(row: SearchRow) -> float:
    """Return the share of the epochs of all trials to their end that was not trained, in [0, 1]."""
    spared = row.epochs_saved + row.epochs_spared
    return spared / (spared + row.epochs_trained) if spared + row.epochs_trained else 0.0


def device_seconds(facts: Facts) -> float:
    """Return the seconds of all devices that the search trained for."""
    return sum(record.seconds * record.width for record in facts.records if not record.reused)


def savings_picture(facts: Facts) -> Picture:
    """Return the picture of the epochs that were trained, and of those that were not."""
    row = facts.row
    parts = (
        ("completed", "trained", row.epochs_trained, device_seconds(facts)),
        ("stopped", "spared by stopping early", row.epochs_spared, row.seconds_spared),
        ("reused", "known from the database", row.epochs_saved, row.seconds_saved),
    )
    bars = [
        Bars(
            ["epochs"],
            [count],
            look,
            name,
            say=[f"{count:,} epochs {name}\n{lasted(seconds)} of devices"],
            stacked=True,
        )
        for look, name, count, seconds in parts
        if count
    ]
    return Picture(
        "savings",
        "epochs trained and spared",
        Axis("epochs", low=0, whole=True),
        Axis(""),
        bars,
        f"{spared_share(row):.0%} of the epochs that all of these trials take to their end were spared.",
        empty="" if bars else "nothing was trained, and nothing spared",
    )
