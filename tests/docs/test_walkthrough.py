"""The commands of the walk through a search run one after the other and print what the page shows, but for figures."""

import contextlib
import io
import re
import runpy
import shlex
import sys

import pytest

from detol import cli, run

QUICK = {
    "search": ["--executor", "inline"],  # the same search without Ray's start
    "export": ["--format", "python"],
}
"""What is added to commands, so that they take seconds."""


APART = ("onnx", "torch", "model.onnx", "model.pt2", "precision", "origin")
"""What the page exports and this test does not; and words that another processor has another value after."""


def first_words(text):
    """Return how the lines of an output begin: names, not figures, nor how wide the columns are for those."""
    return {
        " ".join(match[0].split()).strip(" :")
        for line in text.splitlines()
        if (match := re.match(r"\s*[a-z][a-z_ ]*[a-z]:?", line))
    }


def called(words):
    if words[0] == "detol":
        mirror = ["--tracking", "off"] if "again" in words else []  # one search in MLflow is enough
        return cli.run([*words[1:], *QUICK.get(words[1], []), *mirror])
    assert words[0] == "python"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[1:])
        runpy.run_path(words[1], run_name="__main__")
    return 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_the_page_is_what_the_commands_print(docs, make, folder, monkeypatch):
    # What MLflow gets of the winner (an export and a model, some 20 s) has tests of its own.
    monkeypatch.setattr(run, "exported", lambda *_, **__: contextlib.nullcontext(None))
    monkeypatch.setenv("COLUMNS", "120")
    page = (docs / "walkthrough.md").read_text()
    steps = make.steps(page)
    assert len(steps) > 8
    for command, shown in steps:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert called(shlex.split(command)) == 0, command
        missing = first_words(shown) - first_words(printed.getvalue())
        missing = {words for words in missing if not words.startswith(APART)}
        assert not missing, f"$ {command}: {missing}"
        assert shown.strip() or not printed.getvalue().strip(), f"$ {command}: python docs/make.py walkthrough"


def test_the_blocks_are_taken_apart_and_put_together(make):
    page = (
        "# Title\n\n```console\n$ first --a \\\n    --b\nold\n\n$ second\n```\n\ntext\n\n"
        "```console\n$ third\nold\n```\n"
    )
    assert make.steps(page) == [("first --a \\\n    --b", "old\n"), ("second", ""), ("third", "old")]
    asked = []
    made = make.walkthrough(page, lambda command: asked.append(command) or f"new {len(asked)}")
    assert asked == ["first --a \\\n    --b", "second", "third"]
    assert made == (
        "# Title\n\n```console\n$ first --a \\\n    --b\nnew 1\n\n$ second\nnew 2\n```\n\ntext\n\n"
        "```console\n$ third\nnew 3\n```\n"
    )
    assert make.walkthrough(made, lambda _: "x") == make.walkthrough(page, lambda _: "x")
