"""``detol report`` at the command line, over searches of real training."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from detol import cli
from detol.results.store import Database

SEARCH = ["search", "--data", "digits", "--space", "tiny", "--trials", "3", "--epochs", "2", "--stop", "none"]
INLINE = ["--executor", "inline", "--tracking", "off"]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("searched") / "results.db"
    assert cli.run([*SEARCH, *INLINE, "--name", "first", "--db", str(place)]) == 0
    return place


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]):
    def called(*arguments: object) -> tuple[int, str, str]:
        code = cli.run(["report", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


@pytest.fixture
def fails(call):
    def failed(*arguments: object) -> str:
        code, out, error = call(*arguments)
        assert (code, out) == (2, "")
        assert error.count("\n") == 1
        return error

    return failed


def test_it_writes_a_page_and_says_where(call, db: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    code, out, error = call("first", "--to", target, "--db", db)
    assert (code, error) == (0, "")
    assert out.startswith(f"report of first: {target} (2.0 MB, ")
    text = target.read_text()
    assert "test accuracy" in text  # read once, at the end of the search
    assert "detol search --data digits --space tiny" in text


def test_json_has_path_bytes_seconds_and_pictures(
    call, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from detol.dashboards.report import still

    drawn = still.png  # one picture in the place of all: each takes half a second
    monkeypatch.setattr(still, "png", lambda picture: drawn(replace(picture, marks=(), empty=" ", note="")))
    sheet = tmp_path / "all.png"
    code, out, _ = call("first", "--to", tmp_path / "r.html", "--png", sheet, "--db", db, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["path"] == str(tmp_path / "r.html")
    assert found["bytes"] == (tmp_path / "r.html").stat().st_size
    assert found["seconds"] > 0
    assert found["pictures"] == [str(sheet)]
    assert sheet.read_bytes().startswith(b"\x89PNG")


def test_what_is_there_is_replaced_on_request_alone(call, fails, db: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine")
    assert "exists already: choose another --to, or add --force" in fails("first", "--to", target, "--db", db)
    assert target.read_text() == "mine"
    assert call("first", "--to", target, "--db", db, "--force")[0] == 0
    assert target.read_text() != "mine"


def test_an_unknown_search_has_near_names(fails, db: Path, tmp_path: Path) -> None:
    assert "did you mean first?" in fails("firts", "--to", tmp_path / "r.html", "--db", db)
    assert not list(tmp_path.iterdir())


def test_a_directory_is_no_file(fails, db: Path, tmp_path: Path) -> None:
    assert "is a directory" in fails("first", "--to", tmp_path, "--db", db)


def test_no_database_is_one_line_and_makes_none(fails, tmp_path: Path) -> None:
    assert "there is no results database" in fails("first", "--to", tmp_path / "r.html", "--db", tmp_path / "no.db")
    assert not list(tmp_path.iterdir())


def test_a_search_without_a_score_is_one_line(fails, tmp_path: Path) -> None:
    from detol.search.recipe import Recipe

    with Database(tmp_path / "results.db") as database:
        described = {"digest": "x1:a", "name": "a", "shape": [4], "outputs": 2}
        database.create_search("empty", {"objectives": ["val_accuracy"]}, described, Recipe()).finish()
    said = fails("empty", "--to", tmp_path / "r.html", "--db", tmp_path / "results.db")
    assert "has no trial with a score yet (0 trials, finished)" in said
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("library", ["plotly", "jinja2"])
def test_a_missing_library_says_what_to_install(
    fails, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    assert f"the report needs {library}: pip install {library}" in fails(
        "first", "--to", tmp_path / "r.html", "--db", db
    )
    assert not list(tmp_path.iterdir())


def test_pictures_without_their_library_leave_no_report_either(
    fails, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = fails("first", "--to", tmp_path / "r.html", "--png", tmp_path / "pictures", "--db", db)
    assert "--png needs matplotlib: pip install matplotlib" in said
    assert not list(tmp_path.iterdir())


def test_attach_without_mlflow_says_what_to_give(fails, db: Path, tmp_path: Path) -> None:
    said = fails("first", "--to", tmp_path / "r.html", "--db", db, "--attach")
    assert "ran with tracking off: give --tracking URI" in said
