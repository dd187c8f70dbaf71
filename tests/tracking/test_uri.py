import shlex
from pathlib import Path

import pytest

from detol.errors import UsageError
from detol.tracking.uri import check, redact, sqlite_path, ui_command


def test_a_relative_sqlite_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check("sqlite:///runs/mlflow.db") == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert check(f"sqlite:///{tmp_path}/mlflow.db") == f"sqlite:///{tmp_path}/mlflow.db"
    assert sqlite_path("http://host:5000") is None


@pytest.mark.parametrize("uri", ["http://host:5000", "https://host", "postgresql+psycopg://u:p@host/db"])
def test_servers_and_databases_are_taken_as_they_are(uri: str) -> None:
    assert check(uri) == uri


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns", "", "ftp://host/x", "http://", "sqlite:///"])
def test_other_addresses_are_refused_in_one_line_with_a_remedy(uri: str) -> None:
    with pytest.raises(UsageError, match="use sqlite:///PATH/mlflow.db") as error:
        check(uri)
    assert "\n" not in str(error.value)


def test_a_refusal_does_not_show_a_password() -> None:
    with pytest.raises(UsageError) as error:
        check("ftp://user:secret@host/x")
    assert "secret" not in str(error.value)
    assert redact("postgresql://user:secret@host/db") == "postgresql://user:***@host/db"


def test_the_command_for_the_ui_is_one_a_shell_can_run(tmp_path: Path) -> None:
    words = shlex.split(ui_command(f"sqlite:///{tmp_path}/a b/mlflow.db"))
    assert Path(words[0]).name == "mlflow"
    assert words[1:] == ["ui", "--backend-store-uri", f"sqlite:///{tmp_path}/a b/mlflow.db"]
    assert "http://host:5000" in ui_command("http://host:5000")
