"""What a results database holds of a search, as pandas DataFrames. pandas is imported when one is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from detol.results.browse import LARGEST_PAGE
from detol.results.query import Point, Query
from detol.results.rank import COSTS
from detol.search.records import Objective, Trial

if TYPE_CHECKING:
    import pandas as pd

_AFTER = ("epoch", "epochs")
_LAST = ("seconds", "reused", "note", "reason", "digest", "created", "ended")


def trials(query: Query, search: str, objectives: Sequence[Objective]) -> "pd.DataFrame":
    """Return all trials of a search by number: state, origin, objectives, costs, and how they went.

    Objectives are in their natural direction; what is unknown is missing. Times are UTC.
    """
    import pandas as pd

    points = {point.number: point.values for point in query.points(search)}
    rows, page = [], 1
    while True:
        found = query.trials(search, page=page, size=LARGEST_PAGE)
        rows += [asdict(row) for row in found.rows]
        if page >= found.pages:
            break
        page += 1
    names = [objective.metric for objective in objectives]
    for row in rows:
        row |= {name: points.get(row["number"], {}).get(name) for name in (*names, *COSTS)}
    columns = list(dict.fromkeys(["state", "origin", *names, *_AFTER, *COSTS, *_LAST]))
    made = pd.DataFrame(rows, columns=["number", *columns]).set_index("number")
    for name in (*names, *COSTS, "seconds"):
        made[name] = pd.to_numeric(made[name])
    for name in COSTS:
        if name not in names:
            made[name] = made[name].astype("Int64")
    for name in ("created", "ended"):
        made[name] = pd.to_datetime(made[name].replace("", None), utc=True, format="ISO8601")
    return made


def rows_frame(rows: Iterable[Any]) -> "pd.DataFrame":
    """Return rows of results (dataclasses), a column for each field; those of a front, one for each objective."""
    import pandas as pd

    listed = [asdict(row) for row in rows]
    return pd.DataFrame([{"trial": row.pop("trial"), **row.pop("values", {}), **row} for row in listed])


def decisions(taken: Mapping[int, Mapping[str, Any]]) -> "pd.DataFrame":
    """Return decisions by number of trial, a column for each; those that were not open are missing."""
    import pandas as pd

    made = pd.DataFrame(list(taken.values()), index=pd.Index(list(taken), name="number"))
    return made.convert_dtypes() if len(made.columns) else made


def curves(found: Mapping[int, Sequence[tuple[int, float]]], metric: str) -> "pd.DataFrame":
    """Return learning curves one under the other: trial, epoch, and the metric."""
    import pandas as pd

    rows = [(number, epoch, value) for number in sorted(found) for epoch, value in found[number]]
    return pd.DataFrame(rows, columns=["trial", "epoch", metric])


def records(listed: Sequence[Trial], objectives: Sequence[Objective]) -> "pd.DataFrame":
    """Return trials as the search itself holds them, by number: state, origin, objectives, decisions ..."""
    import pandas as pd

    names = [objective.metric for objective in objectives]
    rows = []
    for trial in listed:
        values = trial.scores or (None,) * len(names)
        scores = {
            o.metric: None if value is None else o.score(value) for o, value in zip(objectives, values, strict=True)
        }
        facts = {"state": str(trial.state), "origin": str(trial.candidate.origin), **scores}
        facts |= {"epoch": trial.epoch, "epochs": trial.epochs, "seconds": trial.seconds, "reason": trial.reason}
        taken = {name: value for name, value in trial.candidate.decisions.items() if name not in facts}
        rows.append({**facts, "digest": trial.digest, **taken})
    index = pd.Index([trial.number for trial in listed], name="number")
    return pd.DataFrame(rows, index=index)


def points(listed: Sequence[Trial], objectives: Sequence[Objective]) -> list[Point]:
    """Return trials as pictures of a search need them."""
    made = []
    for trial in listed:
        values = {name: float(trial.extra[name]) for name in COSTS if name in trial.extra}
        values["seconds"] = trial.seconds
        for objective, score in zip(objectives, trial.scores or (), strict=False):
            values[objective.metric] = objective.score(score)
        made.append(
            Point(trial.number, str(trial.state), str(trial.candidate.origin), trial.epoch, values, bool(trial.reused))
        )
    return made
