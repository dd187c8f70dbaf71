"""The reference of the command line is what ``--help`` says; every command is in it."""

import re

from detol import cli


def test_the_page_is_what_help_says(docs, make):
    assert (docs / "commands.md").read_text() == make.commands(), "the commands have changed: make docs"


def test_every_command_of_the_program_is_there(docs, capsys):
    page = (docs / "commands.md").read_text()
    groups = [()]
    found = []
    while groups:
        group = groups.pop()
        assert cli.run([*group, "--help"]) == 0
        shown = capsys.readouterr().out
        for name in re.findall(r"^  ([a-z-]+)  ", shown.partition("\nCommands:")[2], flags=re.MULTILINE):
            assert cli.run([*group, name, "--help"]) == 0
            deeper = "\nCommands:" in capsys.readouterr().out
            (groups if deeper else found).append((*group, name))
    assert len(found) > 15
    for words in found:
        name = " ".join(words)
        assert f"\n## detol {name}\n" in page
        assert f"Usage: detol {name} [OPTIONS]" in page


def test_links_of_its_contents_lead_somewhere(docs):
    page = (docs / "commands.md").read_text()
    titles = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", page, flags=re.MULTILINE)}
    assert set(re.findall(r"\]\(#(.*?)\)", page)) == titles


def test_another_terminal_makes_the_same_page(make, monkeypatch):
    first = make.help_of(("search",))
    monkeypatch.setenv("COLUMNS", "40")
    assert make.help_of(("search",)) == first
    assert max(map(len, first.splitlines())) <= make.WIDTH
