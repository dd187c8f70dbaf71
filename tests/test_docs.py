"""What README, CONTRIBUTING and the pages of docs show exists: commands, options, settings, Python names, files."""

import re
import shlex
from pathlib import Path

import pytest

from detol import cli
from detol.spaces import catalogue

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "docs" / "commands.md"  # it is compared with --help itself: tests/docs
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path, language=""):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def commands():
    for path in TEXTS:
        lines = [line for kind in ("", "console") for block in blocks(path, kind) for line in joined(block)]
        # In running text a command begins with its name and stands between backticks.
        lines += [" ".join(found.split()) for found in re.findall(r"`((?:detol|\.venv/bin/detol) [^`]+)`", prose(path))]
        for line in lines if path != GENERATED else ():
            line = re.split(r"  #|`", line.removeprefix("$ "))[0].strip()
            if re.match(r"(\.venv/bin/)?detol [a-z]", line) and not re.search(r"\[|\|", line):
                yield pytest.param(shlex.split(line)[1:], id=f"{path.name}: {line[:60]}")


def joined(block):
    return block.replace("\\\n", " ").splitlines()


def prose(path):
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


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


def test_python_of_the_readme_names_what_exists():
    import ast
    import inspect

    import detol
    from detol.result import SearchResult

    (code,) = blocks(ROOT / "README.md", "python")
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of = {"detol": detol, "search": detol.Search, "found": SearchResult}.get(node.value.id)
            fields = getattr(of, "__dataclass_fields__", {})
            assert of is None or node.attr in fields or hasattr(of, node.attr), ast.unparse(node)
            found.add(node.attr)
    assert len(found) > 8
    for name in re.findall(r"[:,] \.(\w+)", code):  # those that are named in comments
        assert hasattr(detol.Search, name), name
    assert "evaluate" in inspect.signature(detol.optimize).parameters


def test_files_that_the_documents_link_to_exist():
    for path in TEXTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert "://" in target or (path.parent / target).exists(), f"{path.name}: {target}"


def test_files_that_the_text_names_exist():
    for path in TEXTS:
        for name in re.findall(
            r"`((?:docs|detol|tests|benchmarks|search_spaces|workers|dashboards)/[\w./-]+)`", prose(path)
        ):
            assert (ROOT / name).exists() or (ROOT / path.parent / name).exists() or "NAME" in name, (
                f"{path.name}: {name}"
            )
