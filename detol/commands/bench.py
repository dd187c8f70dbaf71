"""``detol bench``: strategies on a table of published results."""

import math
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from detol.commands.common import Json, print_json, print_rows

Option = typer.Option
COST = (
    "Column of seconds of a training: NAME, or NAME*12/200 (as which NAME is taken where it is ..._seconds200 and the "
    "objective ..._val12 or ..._test12)."
)
SECONDS = (
    "Simulated seconds of each search. One that misses the best counts as the longest search of all strategies (or as "
    "--trials, if fewer)."
)


def bench(
    space: Annotated[str, Option("--space", help="Search space: a name, or FILE.py that declares one.")],
    table: Annotated[str, Option("--table", help="CSV file with a row for each topology; may be compressed.")],
    objective: Annotated[list[str], Option("--objective", help="Column of scores: NAME, or NAME:min.")],
    key: Annotated[
        str, Option("--key", help="Column that names the topology (without it: a column for each decision).")
    ] = "",
    test: Annotated[list[str] | None, Option("--test", help="Column reported of the incumbent; repeat.")] = None,
    cost: Annotated[str, Option("--cost", help=COST)] = "",
    strategy: Annotated[
        list[str] | None, Option("--strategy", help="A name, or optuna:SAMPLER; repeat (default: guided).")
    ] = None,
    trials: Annotated[int | None, Option("--trials", help="Trainings of each search.")] = None,
    seconds: Annotated[float | None, Option("--seconds", help=SECONDS)] = None,
    workers: Annotated[int, Option("--workers", help="Simulated workers.")] = 1,
    charge: Annotated[
        bool, Option("--charge", help="Let the strategy's own time pass on the simulated clock (not reproducible).")
    ] = False,
    until_best: Annotated[
        bool,
        Option(
            "--until-best",
            help="End each search when it has found the table's best: same incumbents, less time; with --trials alone.",
        ),
    ] = False,
    identity: Annotated[str, Option("--identity", help="What counts as one training: row, or network.")] = "row",
    seeds: Annotated[int, Option("--seeds", help="Searches of each strategy.")] = 100,
    set_: Annotated[
        list[str] | None, Option("--set", help="KEY=VALUE of all strategies, or STRATEGY.KEY=VALUE of one.")
    ] = None,
    warm_objective: Annotated[
        str, Option("--warm-objective", help="Sibling column whose results are known: NAME, or NAME:min.")
    ] = "",
    warm_rows: Annotated[int, Option("--warm-rows", help="Random rows of it that each search knows.")] = 300,
    processes: Annotated[int, Option("--processes", help="Searches side by side (0: one a core).")] = 0,
    to: Annotated[Path | None, Option("--to", help="Directory for a picture of the regret and the answer.")] = None,
    as_json: Json = False,
) -> None:
    """Compare search strategies on a table of published results, without training anything."""
    from detol import wire
    from detol.bench import Protocol, answer, open_table
    from detol.bench.sibling import Sibling
    from detol.config import stepwise
    from detol.errors import UsageError
    from detol.search.records import parse_objective
    from detol.spaces import catalogue

    if len(objective) != 1:
        raise UsageError(f"a bench has one --objective, got {len(objective)}: give further columns as --test")
    if trials is None and seconds is None:
        raise UsageError("a bench needs a bound: --trials N or --seconds S")
    if seconds is not None and not cost:
        raise UsageError("--seconds needs the seconds of each training: --cost COLUMN")
    names = strategy or ["guided"]
    for name in names:
        if stepwise(name):
            raise UsageError(
                f"--strategy {name} changes networks by their shapes and weights, which a table has not: it would be "
                "random search here, so leave it out"
            )
        _caution(name)
    protocol = Protocol(
        trials=math.inf if trials is None else trials,
        seconds=math.inf if seconds is None else seconds,
        workers=workers,
        identity=identity,
        charge=charge,
        until_best=until_best,
    )
    goal = parse_objective(objective[0])
    opened = open_table(
        table, catalogue.load(space), goal, key=key, tests=test or [], cost=_schedule(cost, goal.metric)
    )
    warm = Sibling(opened, parse_objective(warm_objective), warm_rows, key=key).sources if warm_objective else None
    if to is not None:
        _ready(to)
    found = answer(
        opened, protocol, _entries(names, set_ or []), wire.strategy, seeds=seeds,
        processes=processes, progress=_progress, warm=warm,
    )  # fmt: skip
    if warm_objective:
        found |= {"warm": {"objective": warm_objective, "rows": warm_rows}}
    if to is not None:
        _write(found, to)
    for entry in found["strategies"]:
        if entry["untrained"]:
            text = f"{entry['untrained']} of {entry['seeds']} searches no training ended in time"
            print(f"{entry['strategy']}: in {text}: each counts as the table's worst row", file=sys.stderr)  # noqa: T201
    if as_json:
        print_json(found)
    else:
        entries = found["strategies"]
        marks = sorted(
            {mark for entry in entries for mark in entry["best"]}, key=lambda mark: (mark == "end", len(mark), mark)
        )
        print_rows([_row(entry, marks) for entry in entries], as_json=False, title=_title(found))


def _caution(name: str) -> None:
    """Say on standard error what a person should know of a sampler of Optuna's."""
    from detol.strategies.optuna_sampler import caution

    kind, _, sampler = name.partition(":")
    text = caution(sampler) if kind.lower() == "optuna" else ""
    if text:
        print(text, file=sys.stderr)  # noqa: T201


def _entries(names: list[str], settings: list[str]) -> list[Any]:
    from detol.bench import Entry
    from detol.config import parse_sets
    from detol.errors import UsageError

    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    for text in settings:
        name, equals, _ = text.partition("=")
        if not equals:
            raise UsageError(f"--set takes KEY=VALUE, got {text!r}")
        owner = next((known for known in names if name.startswith(f"{known}.")), "")
        short = text.removeprefix(f"{owner}.") if owner else text
        for known in [owner] if owner else names:
            options[known].update(parse_sets([f"strategy.{short}"])["strategy"])
    return [Entry(name, options[name]) for name in dict.fromkeys(names)]


def _schedule(cost: str, objective: str) -> str:
    """Scale a cost of other epochs than the objective's: ``..._val12`` costs 12/200 of ``..._seconds200``.

    Other names say nothing of epochs, whatever digits they end in.
    """
    ours, theirs = re.search(r"_(?:val|test)([1-9]\d*)$", objective), re.search(r"_seconds([1-9]\d*)$", cost)
    if ours is None or theirs is None or ours[1] == theirs[1]:
        return cost
    scaled = f"{cost}*{ours[1]}/{theirs[1]}"
    print(f"{cost} is of {theirs[1]} epochs, {objective} of {ours[1]}: --cost '{scaled}'", file=sys.stderr)  # noqa: T201
    return scaled


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{of} searches", end="\n" if done == of else "", file=sys.stderr)  # noqa: T201


def _title(found: dict[str, Any]) -> str:
    return (
        f"{found['space']}, {found['objective']} of {Path(found['table']).name}: best {found['best']:g}, "
        f"{found['seeds']} seeds, {found['protocol']['name']}, {found['seconds']:.0f} s"
    )


def _row(entry: dict[str, Any], marks: list[str]) -> dict[str, Any]:
    low, high = entry["intervals"]["mean_trainings_to_best"]
    return {
        "strategy": entry["strategy"],
        "to the best": f"{entry['mean_trainings_to_best']:.1f} [{low:.1f}, {high:.1f}]",
        "median": f"{entry['median_trainings_to_best']:g}",
        "found": f"{entry['found']:.0%}",
        **{f"best@{mark}": _figure(entry["best"][mark]) if mark in entry["best"] else "" for mark in marks},
        **{column: _figure(values["end"]) for column, values in entry["test"].items()},
        "duplicates": f"{entry['duplicates']:.1f}",
    }


def _figure(value: float) -> str:
    """Return a score with three decimals, or four digits where these say too little or too much."""
    return f"{value:.3f}" if value == 0 or 1 <= abs(value) < 1e6 else f"{value:.4g}"


def _ready(to: Path) -> None:
    """Make the directory of the answer before the work starts."""
    from detol.errors import UsageError

    rule = f"--to takes a directory that can be written, got {to}"
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{rule}: {error.strerror or error}") from None
    if not os.access(to, os.W_OK):
        raise UsageError(f"{rule}: you may not write there")


def _write(found: dict[str, Any], to: Path) -> None:
    import json

    from detol.bench.picture import draw

    path = draw(found, to)
    (to / "bench.json").write_text(json.dumps(found, indent=2), encoding="utf-8")
    print(f"written: {path} and {to / 'bench.json'}", file=sys.stderr)  # noqa: T201
