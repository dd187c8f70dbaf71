import stat
from pathlib import Path

import pytest

from detol.errors import UsageError
from detol.export.destination import check_destination, whole


def test_the_directory_appears_at_the_end_and_as_others_do(tmp_path: Path) -> None:
    place = tmp_path / "new" / "out"
    with whole(place) as folder:
        (folder / "file").write_text("x")
        assert not place.exists()
        assert folder.parent == place.parent
    assert [path.name for path in place.parent.iterdir()] == ["out"]
    (tmp_path / "plain").mkdir()
    assert stat.S_IMODE(place.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    with whole(tmp_path / "out") as folder:
        (folder / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    with whole(tmp_path / "empty") as folder:
        (folder / "file").write_text("x")
    assert (tmp_path / "empty" / "file").is_file()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_nothing_is_left(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), whole(tmp_path / "new" / "out") as folder:  # noqa: PT012
        (folder / "half").write_text("x")
        raise error
    assert list(tmp_path.iterdir()) == []


def test_a_file_or_a_full_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with pytest.raises(UsageError, match="needs an empty directory"):
        check_destination(tmp_path / "full")
    with pytest.raises(UsageError, match="is a file"):
        check_destination(tmp_path / "full" / "file")
    with pytest.raises(UsageError, match="cannot write into"):
        check_destination(tmp_path / "full" / "file" / "below")
