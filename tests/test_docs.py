"""What README and CONTRIBUTING show exists: commands, options, files, and the example of a space."""

import re
import shlex
from pathlib import Path

import pytest

from detol import cli
from detol.spaces import catalogue

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(path, language=""):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def commands():
    for path in TEXTS:
        for block in blocks(path):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.split("  #")[0].strip()
                if re.match(r"(\.venv/bin/)?detol [a-z]", line):
                    yield pytest.param(shlex.split(line)[1:], id=f"{path.name}: {line[:60]}")


def test_there_are_commands_to_check():
    assert len(list(commands())) > 10


@pytest.mark.parametrize("words", list(commands()))
def test_commands_and_options_of_the_documents_exist(words, capsys):
    group = words[:2] if words[0] in ("results", "data", "track") else words[:1]
    assert cli.run([*group, "--help"]) == 0
    shown = capsys.readouterr().out
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{word}\b", shown), f"detol {' '.join(group)} has no {word}"


def test_settings_that_the_readme_lists_exist():
    from detol import wire

    text = (ROOT / "README.md").read_text()
    for kind, known in (("--strategy", wire.STRATEGIES), ("--stop", wire.STOPPERS), ("--space", catalogue.builtins())):
        (row,) = re.findall(rf"^\| `{kind}` \| (.*) \|$", text, flags=re.MULTILINE)
        listed = set(re.findall(r"`([a-z_0-9]+)`", row)) - {"auto"}
        assert listed == set(known)


def test_the_example_of_a_space_works(tmp_path):
    (example,) = [block for block in blocks(ROOT / "CONTRIBUTING.md", "python") if "SPACE =" in block]
    (tmp_path / "plain.py").write_text(example)
    space = catalogue.load(str(tmp_path / "plain.py"))
    assert space.size == 18


def test_files_that_the_documents_link_to_exist():
    for path in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert "://" in target or (ROOT / target).exists(), target
