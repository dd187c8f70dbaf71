"""``detol plan``: how wide a training is worth."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from detol.commands.common import Db, Json, print_json, print_rows

if TYPE_CHECKING:
    from detol.planning import Subject
    from detol.scaling.answer import Plan
    from detol.scaling.machine import Machine

Option = typer.Option


def plan(
    model: Annotated[str, Option("--model", help="alexnet, googlenet, or a TRIAL, DIGEST or NAME of a search.")] = "",
    data: Annotated[str, Option("--data", help="Data, for networks of --space.")] = "",
    space: Annotated[str, Option("--space", help="Search space: a name, FILE.py, or auto (default).")] = "",
    batch: Annotated[int, Option("--batch", help="Samples of a step (default: the network's or the recipe's).")] = 0,
    ranks: Annotated[str | None, Option("--ranks", help="Widths to list, e.g. 1,2,4 (default: powers of two).")] = None,
    machine: Annotated[
        str, Option("--machine", help="cached (this one, measured once), FILE.json, or a preset: fdr-k80, fdr-titanx.")
    ] = "cached",
    strong: Annotated[bool, Option("--strong", help="Only strong scaling: one batch divided among the ranks.")] = False,
    weak: Annotated[bool, Option("--weak", help="Only weak scaling: a batch for each rank.")] = False,
    compression: Annotated[
        float | None, Option("--compression", help="How many times fewer bytes are sent (default: by the recipe).")
    ] = None,
    storage: Annotated[
        str, Option("--storage", help="MB/s at which samples are read, or measured (default: data are in memory).")
    ] = "",
    device: Annotated[str | None, Option("--device", help="Of this machine: auto (default), cpu or cuda.")] = None,
    workers: Annotated[
        int | None, Option("--workers", help="Ranks of this machine (default, or 0: one a core or GPU).")
    ] = None,
    measure: Annotated[
        bool, Option("--measure", help="Also time a step of each network on one rank here: the model adds the others.")
    ] = False,
    recalibrate: Annotated[bool, Option("--recalibrate", help="Measure this machine again.")] = False,
    set_: Annotated[list[str] | None, Option("--set", help="SECTION.KEY=VALUE of recipe or data.")] = None,
    to: Annotated[Path | None, Option("--to", help="Write a picture: PNG, SVG or PDF.")] = None,
    db: Db = "",
    as_json: Json = False,
) -> None:
    """Say how long a step takes at each width, which width is still useful, and what bounds it."""
    from detol import config, planning
    from detol.errors import UsageError, unknown
    from detol.scaling import picture
    from detol.scaling.answer import STRONG, WEAK
    from detol.scaling.answer import plan as answer

    widths = planning.widths(ranks)
    planning.check_batch(batch)
    if device not in (None, "auto", "cpu", "cuda"):
        raise unknown("device", device, ("auto", "cpu", "cuda"))
    if to is not None:
        picture.check(to)
    bandwidth = _bandwidth(storage)
    if measure and machine != "cached":
        raise UsageError(f"--measure times networks on this machine, got --machine {machine}: leave one of them out")
    found = planning.subjects(model, data, space, db, config.parse_sets(set_ or []))
    where = planning.machine(machine, device, workers, found[0].recipe.precision, again=recalibrate, say=_say)
    if storage:
        where = where.with_storage(bandwidth or where.files)
    timed = [width for width in widths or (2**power for power in range(6)) if not where.ranks or width <= where.ranks]
    modes = [mode for mode, wanted in ((STRONG, strong), (WEAK, weak)) if wanted or strong == weak]

    def plans(subject: "Subject") -> list["Plan"]:
        samples = batch or subject.recipe.batch_size
        return [
            answer(
                subject.work,
                where,
                batch=samples,
                widths=widths,
                mode=mode,
                compression=compression,
                communication=subject.recipe.communication,
                measured=planning.timed(subject, samples, timed, where, weak=mode == WEAK) if measure else None,
            )
            for mode in modes
        ]

    made = [plans(subject) for subject in found]
    if to is not None:
        _say(f"written: {picture.draw(made[0], to)}")
    if as_json:
        print_json({"machine": where.as_dict(), "networks": [{p.mode: p.as_dict() for p in each} for each in made]})
        return
    for each in made[0]:
        print_rows([_row(row.as_dict()) for row in each.rows], as_json=False, title=_title(each, where))
        print(each.verdict + "\n")  # noqa: T201
    for others in made[1:]:
        for each in others:
            print(f"{each.work.name}: {each.verdict}")  # noqa: T201


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


def _bandwidth(storage: str) -> float:
    """Return bytes a second; 0 for ``measured`` and for nothing."""
    from detol.errors import UsageError

    if storage in ("", "measured"):
        return 0.0
    try:
        bandwidth = float(storage) * 1e6
    except ValueError:
        bandwidth = 0.0
    if not 0 < bandwidth < float("inf"):
        raise UsageError(f"--storage is in MB/s, > 0, or the word measured, got {storage!r}")
    return bandwidth


def _title(plan: "Plan", machine: "Machine") -> str:
    work = plan.work
    way = "" if plan.communication in ("", "plain") else f", gradients by {plan.communication}"
    return (
        f"{work.name}: {work.params:,} parameters ({work.gradient_bytes / 1e6:,.1f} MB of gradients), "
        f"{work.multiply_adds / 1e6:,.1f} M multiply-adds; {plan.mode} scaling of batch {plan.batch}{way} "
        f"on {machine.name}"
    )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    milliseconds = {name: 1e3 * value for name, value in row.items() if name.endswith("_seconds")}
    return {
        "ranks": row["ranks"],
        "samples": row["samples_per_rank"],
        "step ms": _digits(milliseconds.pop("step_seconds")),
        "samples/s": _digits(row["samples_per_second"]),
        "speed-up": f"{row['speedup']:.2f}",
        "efficiency": f"{row['efficiency']:.0%}",
        **{
            f"{name.removesuffix('_seconds').replace('_', ' ')} ms": _digits(value)
            for name, value in milliseconds.items()
        },
        "bound": row["bound"],
    }


def _digits(value: float) -> str:
    """Return a number with three digits that count, or all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
