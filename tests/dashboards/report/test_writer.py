"""Where reports are written: whole, or not at all."""

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from detol.dashboards.report import still, writer
from detol.dashboards.report.writer import write_report
from detol.errors import ResultsError, UsageError


@pytest.fixture
def quick(monkeypatch):
    """Pictures that take no time."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, format="png")
    monkeypatch.setattr(still, "png", lambda picture: buffer.getvalue())


def write(query, name, target, **options):
    return write_report(query, name, Path(target), resamples=0, most=0, **options)


def test_it_says_what_it_wrote(query, tmp_path):
    found = write(query, "kinds", tmp_path / "r.html")
    assert found == {
        "path": str(tmp_path / "r.html"),
        "bytes": (tmp_path / "r.html").stat().st_size,
        "trials": 9,
        "pictures": [],
    }
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o666 & ~mask


def test_pictures_go_into_a_directory_or_onto_one_sheet(query, quick, tmp_path):
    found = write(query, "kinds", tmp_path / "r.html", png=tmp_path / "pictures")
    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert sorted(Path(path).name for path in found["pictures"]) == names
    assert {"front.png", "curves.png", "best-by-time.png", "workers.png"} <= set(names)
    found = write(query, "kinds", tmp_path / "s.html", png=tmp_path / "all.png")
    assert found["pictures"] == [str(tmp_path / "all.png")]
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_there_stays_unless_forced(query, tmp_path):
    target = tmp_path / "r.html"
    target.write_text("mine")
    with pytest.raises(UsageError, match=r"exists already: choose another --to, or add --force"):
        write(query, "kinds", target)
    assert target.read_text() == "mine"
    write(query, "kinds", target, force=True)
    assert target.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (".", "is a directory: --to"),
        ("none/r.html", "there is no directory"),
        ("file/r.html", "there is no directory"),
        ("x" * 300 + ".html", "cannot be a file"),
    ],
)
def test_a_place_that_cannot_be_is_one_line(query, tmp_path, target, said):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=said) as error:
        write(query, "kinds", tmp_path / target)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder here that even root cannot write")
def test_a_folder_that_cannot_be_written_is_one_line(query):
    with pytest.raises(UsageError, match="cannot write"):
        write(query, "kinds", "/proc/r.html")


@pytest.mark.parametrize(
    ("png", "said"),
    [
        ("file", "is a file: choose another --png"),
        ("full", "holds something already: choose another --png, or add --force"),
        ("none/pictures", "there is no directory"),
        ("there.png", "exists already: choose another --png"),
    ],
)
def test_pictures_without_a_place_leave_no_report_either(query, tmp_path, png, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "there.png").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(UsageError, match=said):
        write(query, "kinds", tmp_path / "r.html", png=tmp_path / png)
    assert not (tmp_path / "r.html").exists()


def test_a_disk_that_is_full_leaves_nothing(query, quick, tmp_path, monkeypatch):
    written = []

    def failing(descriptor, mode):
        if written:
            os.close(descriptor)
            raise OSError(28, "No space left on device")
        written.append(descriptor)
        return os.fdopen_before(descriptor, mode)

    monkeypatch.setattr(os, "fdopen_before", os.fdopen, raising=False)
    monkeypatch.setattr(writer.os, "fdopen", failing)
    with pytest.raises(UsageError, match="No space left on device"):
        write(query, "kinds", tmp_path / "r.html", png=tmp_path / "pictures")
    assert list(tmp_path.iterdir()) == []


def test_a_search_that_is_not_there_has_near_names(query, tmp_path):
    with pytest.raises(ResultsError, match="did you mean first"):
        write(query, "firts", tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_a_search_without_a_score_says_so(query, tmp_path):
    with pytest.raises(UsageError, match=r"'none-yet' has no trial with a score yet \(1 trials, finished\)"):
        write(query, "none-yet", tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_the_short_report_says_that_it_is(query, tmp_path):
    write(query, "first", tmp_path / "r.html")
    assert "This is the short report" in (tmp_path / "r.html").read_text()
