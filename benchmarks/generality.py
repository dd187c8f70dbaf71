"""Strategies on tables that none of them was made for (``made_tables.py``), as ``detol bench`` runs them.

``made_tables.py --to DIR`` writes spaces and tables as a user would; here guided, with its defaults, is compared with
local search, evolution and Optuna's TPE and GP samplers on each of them: trainings to the best, incumbents, share of
seeds that found it. Mean over seeds with 95 % bootstrap intervals. ``--table FILE.py FILE.csv`` takes any other table
with a column for each decision and a score ``val_accuracy``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from common import arguments, device

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.search.records import Objective
from detol.spaces import catalogue

STRATEGIES = ("optuna:GPSampler", "random", "local_search", "evolution", "optuna:TPESampler", "guided")


def compare(space: Path, table: Path, options: Any) -> dict[str, Any]:
    """Return the figures of one table."""
    opened = open_table(table, catalogue.load(space), Objective("val_accuracy"))
    chosen = options.strategies.split(",") if options.strategies else STRATEGIES
    slow = {"optuna:GPSampler": options.gp_seeds}
    entries = [Entry(name, seeds=slow.get(name, 0)) for name in chosen]
    protocol = Protocol(trials=options.trials, until_best=True)
    found = answer(opened, protocol, entries, wire.strategy, seeds=options.seeds, processes=options.processes)
    print(f"{space.stem}: {found['seconds']:.0f} s", file=sys.stderr)
    return found


def markdown(found: dict[str, Any]) -> str:
    """Return the figures of one table as Markdown."""
    name, rows, trials = found["space"], found["rows"], found["protocol"]["trials"]
    marks = [mark for mark in ("25", "50", "100") if mark in found["strategies"][0]["best"]]
    header = ["strategy", "n", "trainings to the best", "median", "found", *(f"best@{mark}" for mark in marks), "s"]
    lines = [f"**{name}**: {rows} rows, best {found['best']:.2f}, {trials:g} trainings", ""]
    lines += [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in found["strategies"]:
        low, high = row["intervals"]["mean_trainings_to_best"]
        cells = [row["strategy"], str(row["seeds"]), f"{row['mean_trainings_to_best']:.1f} [{low:.1f}, {high:.1f}]"]
        cells += [f"{row['median_trainings_to_best']:g}", f"{row['found']:.0%}"]
        for mark in marks:
            below, above = row["intervals"]["best"][mark]
            cells.append(f"{row['best'][mark]:.2f} [{below:.2f}, {above:.2f}]")
        lines.append(f"| {' | '.join([*cells, format(row['search_seconds'], '.1f')])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Compare on each table, and print."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--made", type=Path, help="directory of made_tables.py")
    parser.add_argument("--only", default="", help="tables of that directory, with commas (default: all)")
    parser.add_argument("--table", type=Path, nargs=2, metavar=("SPACE", "CSV"), action="append", default=[])
    parser.add_argument("--strategies", default="", help=f"with commas (default: {','.join(STRATEGIES)})")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--gp-seeds", type=int, default=30)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--processes", type=int, default=0)
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.gp_seeds, options.trials = 4, 2, 40
    tables = [tuple(pair) for pair in options.table]
    if options.made:
        tables += [(space, space.with_suffix(".csv")) for space in sorted(options.made.glob("*.py"))]
    names = options.only.split(",") if options.only else [space.stem for space, _ in tables]
    figures: dict[str, Any] = {"benchmark": "generality", "quick": options.quick}
    for space, table in tables:
        if space.stem in names:
            figures[space.stem] = compare(space, table, options)
            print(markdown(figures[space.stem]), flush=True)
            for row in figures[space.stem]["strategies"]:
                del row["regret"]
    if options.json:
        print(json.dumps({**figures, **device()}))


if __name__ == "__main__":
    main()
