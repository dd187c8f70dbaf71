"""The page: one HTML file that asks for nothing.

plotly.js and the pictures' data are inside, compressed (gzip in base64, which browsers unpack since 2023); the text,
the tables and the winner's drawing are plain HTML and stay when no script runs. The page's own policy allows the two
scripts it holds, by their hashes, and no connection: had anything slipped through the escaping, it would not run.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from detol.dashboards.report import choices, progress, sections, trials, workers
from detol.dashboards.report.drawings import DRAWN, drawing, drawings, told
from detol.dashboards.report.facts import Facts
from detol.dashboards.report.importance import RESAMPLES
from detol.dashboards.report.interactive import figure
from detol.dashboards.report.looks import LOOKS, dark_of
from detol.dashboards.report.picture import Picture
from detol.dashboards.web import words
from detol.dashboards.web.figures import better_way, name_of
from detol.errors import UsageError
from detol.graph.draw import STYLE
from detol.results.query import Query
from detol.results.tables import plain

_HERE = Path(__file__).parent / "templates"


def pictures(facts: Facts, *, resamples: int = RESAMPLES) -> dict[str, list[Picture]]:
    """Return the pictures of a search by section, in the order of the page.

    Args:
        facts: of the search.
        resamples: bootstrap samples behind the importance of decisions; fewer are quicker and coarser, 0 leaves it out.
    """
    return {
        "front": [trials.front(facts)],
        "progress": progress.pictures(facts),
        "curves": [trials.curves(facts)],
        "choices": choices.pictures(facts, choices.answer(facts, resamples)) if resamples else [],
        "lineage": [trials.lineage(facts)],
        "workers": [workers.busy_picture(facts)],
        "savings": [workers.savings_picture(facts)],
    }


def page(
    query: Query, facts: Facts, drawn: Mapping[str, Sequence[Picture]], *, command: str = "", most: int = DRAWN
) -> str:
    """Return the report as HTML.

    Args:
        query: of the database.
        facts: of the search.
        drawn: its pictures by section.
        command: line that does the search again; empty: it cannot be given.
        most: topologies that can be looked at, besides those that matter.

    Raises:
        UsageError: plotly or jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        missing = (error.name or "plotly").partition(".")[0]
        raise UsageError(f"the report needs {missing}: pip install {missing}") from None
    listed = [picture for group in drawn.values() for picture in group]
    payload = {
        "figures": {each.key: json.loads(figure(each).to_json()) for each in listed if not each.empty},
        "trials": told(facts),
        **drawings(query, facts, most),
        "dark": dark_of(),
        "winner": facts.winner.number,
    }
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    library = get_plotlyjs()
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"duration": words.duration, "metric": words.metric, "moment": words.moment}
    winner = facts.winner
    shape = tuple(facts.identity.described.get("shape") or ())
    own = query.drawn(facts.row.name, [winner.number])[winner.number]
    return environment.get_template("report.html").render(
        row=facts.row,
        winner=winner,
        objective=name_of(facts.first.metric),
        way=better_way(facts.first),
        sections=sections,
        facts=facts,
        drawn=drawn,
        looks=LOOKS,
        command=command,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        policy=policy(script, library),
        style=Markup((_HERE / "report.css").read_text(encoding="utf-8") + STYLE),  # noqa: S704  our own style sheets
        winner_drawing=Markup(drawing(own, shape)),  # noqa: S704  draw escapes all text
        script=Markup(script),  # noqa: S704  our own
        library=packed(library),
        payload=packed(json.dumps(plain(payload), allow_nan=False, separators=(",", ":"))),
    )


def policy(*scripts: str) -> str:
    """Return a content security policy that lets these scripts run, and nothing be fetched."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{text}'" for text in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def packed(text: str) -> str:
    """Return text as gzip in base64."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
