import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from detol.errors import SpaceError
from detol.search.protocols import SearchSpace
from detol.spaces import catalogue
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

FILE = """
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

SPACE = DecisionSpace("mine", [Choice("a", (1, 2))])
OTHER = DecisionSpace("other", [Choice("b", (1, 2, 3))])
"""


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def failure(space: object) -> str:
    """The one line with which loading fails."""
    with pytest.raises(SpaceError) as caught:
        catalogue.load(space)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_built_in_spaces_are_found_by_name() -> None:
    assert set(catalogue.builtins()) == {"image_cell", "image_dag", "nasbench201", "signal", "tabular", "tiny"}
    for name in catalogue.builtins():
        assert catalogue.load(name).name == name
        assert catalogue.load(name) is catalogue.load(name)


def test_no_space_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys; from detol.spaces import catalogue; names = catalogue.names(); catalogue.load('tiny');"
        "print([m for m in sys.modules if m.startswith('detol.search_spaces.')], 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['detol.search_spaces.tiny'] False"


@pytest.mark.parametrize(("kind", "name"), [("image", "image_cell"), ("signal", "signal"), ("features", "tabular")])
def test_auto_picks_by_the_kind_of_data(kind: str, name: str) -> None:
    found = catalogue.auto(kind)
    assert isinstance(found, DecisionSpace)
    assert (found.name, found.kind) == (name, kind)
    with pytest.raises(SpaceError, match="did you mean image"):
        catalogue.auto("imag")


def test_unknown_names_have_near_ones() -> None:
    assert failure("image_cel") == "unknown space 'image_cel': did you mean image_cell, image_dag?"
    assert "tiny" in failure("quite different")


def test_an_object_that_keeps_the_protocol_is_taken_as_it_is() -> None:
    space = DecisionSpace("mine", [Choice("a", (1, 2))])
    assert catalogue.load(space) is space
    assert "is no search space (int lacks name, size" in failure(7)
    assert "make an instance" in failure(DecisionSpace)


def test_a_file_defines_space_or_a_named_constant(tmp_path: Path) -> None:
    path = write(tmp_path, FILE)
    assert catalogue.load(path).name == "mine"
    assert catalogue.load(Path(path)).name == "mine"
    assert catalogue.load(f"{path}:OTHER").size == 3
    assert isinstance(catalogue.load(path), SearchSpace)


def test_files_of_one_name_are_two_modules_and_an_edit_is_seen(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    first = catalogue.load(write(tmp_path, FILE))
    second = catalogue.load(write(tmp_path / "sub", FILE.replace('"mine"', '"yours"')))
    assert (first.name, second.name) == ("mine", "yours")
    assert catalogue.load(write(tmp_path, FILE.replace('"mine"', '"edited"'))).name == "edited"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such file" in failure(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = 1\n\ny = x / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("def f():\n    raise ValueError('two\\nlines')\n\nf()\n", 2, "ValueError: two"),
        ("x = 1\nfor\n", 2, "SyntaxError: invalid syntax"),
        ("import no_such_package_at_all\n", 1, "ModuleNotFoundError"),
        ("x = 1\nraise SystemExit(3)\n", 2, "SystemExit"),
        ("raise ValueError\n", 1, "ValueError"),
        (FILE.replace("(1, 2))", "())"), 5, "at least one value"),
        ("x = 1\n", 1, "defines no constant SPACE"),
        (FILE.replace("SPACE = ", "OURS = "), 1, "mine.py:OURS"),
        ("x = 1\nSPACE = 7\n", 2, "SPACE is no search space (int lacks name"),
        ("x = 1\nclass SPACE:\n    pass\n", 2, "make an instance"),
        ("class S:\n    name = 'x'\nSPACE = S()\n", 3, "lacks size, references, next"),
    ],
)
def test_a_file_that_fails_is_one_line_with_its_place(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write(tmp_path, text)
    before = set(sys.modules)
    message = failure(path)
    assert message.startswith(f"space file {path}, line {line}: ")
    assert words in message
    if line != 1 or "Error" in words:
        assert path in message
    assert "Error" not in words or set(sys.modules) == before


def register(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = EntryPoints(EntryPoint(name, value, catalogue.GROUP) for name, value in values.items())
    monkeypatch.setattr(catalogue.metadata, "entry_points", lambda group: points.select(group=group))


def test_other_packages_register_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, theirs="detol.search_spaces.tiny:SPACE", tiny="no.such.module:SPACE")
    assert "theirs" in catalogue.names()
    assert catalogue.load("theirs").name == "tiny"
    # A built-in name stays what it is.
    assert catalogue.load("tiny").name == "tiny"
    assert catalogue.names().count("tiny") == 1
    assert "did you mean theirs" in failure("their")


def test_an_entry_point_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, gone="no.such.module:SPACE", wrong="detol.search_spaces.tiny:build")
    assert "'no.such.module:SPACE' fails: ModuleNotFoundError" in failure("gone")
    assert "'detol.search_spaces.tiny:build' is no search space" in failure("wrong")


def test_a_name_that_two_packages_register_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(EntryPoint("twice", value, catalogue.GROUP) for value in ("a:SPACE", "b:SPACE"))
    monkeypatch.setattr(catalogue.metadata, "entry_points", lambda group: points.select(group=group))
    assert "several packages (a:SPACE, b:SPACE)" in failure("twice")
