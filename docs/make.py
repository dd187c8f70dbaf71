"""Makes what is generated in these pages: ``python docs/make.py [commands] [examples] [walkthrough] [notebook]``.

``commands.md`` is the help of every command. ``extending.md`` shows the code of ``examples/``. In ``walkthrough.md``
each line ``$ ...`` of a console block is run, in one scratch folder and in order, and what it prints takes the place of
what stands below it. ``example.ipynb`` is executed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
HEAD = """# The commands

Every command has `--help`; this page is that help, put together by `make docs`. Commands that print a table take
`--json` (one JSON document on standard output, nothing else there). Exit code 0: success; 1: detol could not go on; 2:
an input against a rule, told in one line; 130: Ctrl-C, everything saved.
"""
WIDTH = 80
"""Columns of the help texts."""
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def paths(group: object, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every command of a group of commands, as the words that call it."""
    for name, command in getattr(group, "commands", {}).items():
        if getattr(command, "commands", None):
            yield from paths(command, (*before, name))
        else:
            yield (*before, name)


def help_of(words: tuple[str, ...]) -> str:
    """Return what ``detol WORDS --help`` prints in a terminal of ``WIDTH`` columns."""
    import contextlib
    import io

    from detol import cli

    written, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(written):
            cli.app([*words, "--help"], prog_name="detol", standalone_mode=False)
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(line.rstrip() for line in written.getvalue().strip().splitlines())


def commands() -> str:
    """Return the page of the commands."""
    import typer.main

    from detol import cli

    listed = list(paths(typer.main.get_command(cli.app)))
    links = "\n".join(f"- [`detol {' '.join(words)}`](#detol-{'-'.join(words)})" for words in listed)
    parts = [f"## detol {' '.join(words)}\n\n```text\n{help_of(words)}\n```" for words in listed]
    return f"{HEAD}\n{links}\n\n" + "\n\n".join(parts) + "\n"


def code_of(example: str) -> str:
    """Return the code of an example, without what stands at its head."""
    text = (DOCS / "examples" / example).read_text()
    return text[text.index('"""\n', 3) + 4 :].strip("\n")


def with_examples(text: str) -> str:
    """Return a page in whose blocks below ``<!-- examples/FILE.py -->`` the code of that file stands."""
    marked = re.compile(r"^<!-- examples/(\w+\.py) -->\n```python\n.*?^```", re.DOTALL | re.MULTILINE)
    return marked.sub(lambda found: f"<!-- examples/{found[1]} -->\n```python\n{code_of(found[1])}\n```", text)


def steps(text: str) -> list[tuple[str, str]]:
    """Return the commands of a page's console blocks with what is printed below each."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = 1
            while lines[count - 1].endswith("\\"):
                count += 1
            found.append(("\n".join(lines[:count]), "\n".join(lines[count:])))
    return found


def walkthrough(text: str, run: Callable[[str], str]) -> str:
    """Return a page in which what ``run`` returns stands below each command."""
    printed = iter([run(command) for command, _ in steps(text)])
    given = iter(steps(text))

    def block(match: re.Match[str]) -> str:
        count = len(re.findall(r"^\$ ", match[1], flags=re.MULTILINE))
        parts = [f"$ {next(given)[0]}\n{next(printed)}" for _ in range(count)]
        return "```console\n" + "\n".join(part.rstrip("\n") + "\n" for part in parts) + "```"

    return BLOCK.sub(block, text)


def shell(folder: Path) -> Callable[[str], str]:
    """Return what runs a command in a folder, as a person would, and returns what it prints."""
    (folder / "docs").mkdir(exist_ok=True)
    shutil.copytree(DOCS / "examples", folder / "docs" / "examples", dirs_exist_ok=True)
    bin_ = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}

    def run(command: str) -> str:
        done = subprocess.run(  # noqa: S602  the page's own commands, with their pipes
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"$ {command}\n{done.stdout}{done.stderr}")
        printed = done.stdout.replace(f"{bin_}/", "").replace(f"{folder}/", "")
        return "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())

    return run


def notebook(path: Path, folder: Path) -> Any:
    """Return a notebook, executed in a folder by a kernel of this Python.

    Raises:
        CellExecutionError: a cell raises.
    """
    import nbformat
    from nbclient import NotebookClient

    read = nbformat.read(path, as_version=4)
    environment = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype", "OMP_NUM_THREADS": "1"}
    client = NotebookClient(read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)
    for cell in read.cells:
        cell.metadata.pop("execution", None)  # times of day
    read.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return read


def with_images(read: Any) -> Any:
    """Return a notebook whose plotly figures also stand there as PNG, for pages on which no script runs."""
    import base64

    import plotly.graph_objects as go
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play, tempfile.TemporaryDirectory() as scratch:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 860, "height": 460})
        for cell in read.cells:
            for output in cell.get("outputs", ()):
                figure = output.get("data", {}).get("application/vnd.plotly.v1+json")
                if figure:
                    drawn = go.Figure(figure).update_layout(width=840, height=440)
                    file = Path(scratch) / "figure.html"
                    file.write_text(drawn.to_html(include_plotlyjs=True, config={"displayModeBar": False}))
                    page.goto(file.as_uri())
                    page.wait_for_selector(".main-svg")
                    output["data"]["image/png"] = base64.b64encode(page.screenshot()).decode()
        browser.close()
    return read


def main(names: list[str]) -> None:
    """Make what is named, or all."""
    wanted = names or ["commands", "examples", "walkthrough", "notebook"]
    with tempfile.TemporaryDirectory() as scratch:
        if "commands" in wanted:
            (DOCS / "commands.md").write_text(commands())
        if "examples" in wanted:
            page = DOCS / "extending.md"
            page.write_text(with_examples(page.read_text()))
        if "walkthrough" in wanted:
            page = DOCS / "walkthrough.md"
            page.write_text(walkthrough(page.read_text(), shell(Path(scratch))))
        if "notebook" in wanted:
            import nbformat

            page = DOCS / "example.ipynb"
            folder = Path(scratch) / "notebook"
            folder.mkdir()
            nbformat.write(with_images(notebook(page, folder)), page)


if __name__ == "__main__":
    main(sys.argv[1:])
