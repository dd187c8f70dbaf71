"""The command line: ``detol COMMAND``. Each command loads what it uses when it runs, so that ``--help`` is quick."""

import sys
from collections.abc import Sequence

import typer

from detol.commands import bench, dashboard, data, export, plan, report, results, search, spaces, status, track
from detol.errors import DetolError, UsageError

app = typer.Typer(
    name="detol",
    help="Automated topology learning: bring a data set, get a network topology that is good on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("search")(search.search)
app.command("resume")(search.resume)
app.command("status")(status.status)
app.add_typer(results.app, name="results")
app.command("export")(export.export)
app.command("spaces")(spaces.spaces)
app.add_typer(data.app, name="data")
app.add_typer(track.app, name="track")
app.command("bench")(bench.bench)
app.command("plan")(plan.plan)
app.command("dashboard")(dashboard.dashboard)
app.command("report")(report.report)

INTERRUPTED = 130
_CLICK_ERROR = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code.

    0: success. 1: detol could not go on. 2: a usage or input error, told in one line. 130: Ctrl-C, everything saved.
    """
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        code = app(list(arguments), standalone_mode=False)
    except UsageError as error:
        return _fail(str(error), 2)
    except DetolError as error:
        return _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # e.g. `detol results top | head`
        sys.stderr.close()
        return 0
    except Exception as error:
        if not isinstance(error, _CLICK_ERROR):
            raise
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            print(context.get_help() if context else error)  # noqa: T201
            return 2
        path = context.command_path if context else "detol"
        return _fail(f"{error.format_message()} (see {path} --help)", 2)  # type: ignore[attr-defined]
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"detol: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return code
