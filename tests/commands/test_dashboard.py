"""``detol dashboard`` at the command line."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from detol import cli
from detol.dashboards.web.serve import loopback
from detol.results.store import Database


@pytest.fixture
def db(tmp_path: Path) -> Path:
    Database(tmp_path / "results.db").close()
    return tmp_path / "results.db"


def fails(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.run(["dashboard", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_port_in_use_is_one_line(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} is in use: take another --port" in fails(capsys, "--db", db, "--port", port)


@pytest.mark.parametrize(
    ("option", "value"), [("--port", 70000), ("--port", -1), ("--host", "256.1.1.1"), ("--host", "")]
)
def test_an_address_that_cannot_be_is_one_line(
    db: Path, capsys: pytest.CaptureFixture[str], option: str, value: object
) -> None:
    assert f"{option} must be" in fails(capsys, "--db", db, option, value)


def test_no_database_is_one_line_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no results database" in fails(capsys, "--db", tmp_path / "none.db")
    assert not list(tmp_path.iterdir())


def test_a_missing_library_says_what_to_install(
    db: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("detol.dashboards.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "the dashboard needs uvicorn: pip install 'detol[dashboard]'" in fails(capsys, "--db", db)


@pytest.mark.parametrize(
    ("host", "near"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_what_only_this_machine_reaches(host: str, near: bool) -> None:
    assert loopback(host) == near


def test_it_serves_until_it_is_interrupted(db: Path) -> None:
    command = [sys.executable, "-m", "detol", "dashboard", "--db", str(db), "--port", "0", "--host", "0.0.0.0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout
        said = process.stdout.readline()
        found = re.search(r"http://0\.0\.0\.0:(\d+)/\?token=(\S+)", said)
        assert found, said  # beyond this machine: a token, made up
        assert len(found[2]) >= 20
        asked = Request(f"http://127.0.0.1:{found[1]}/", headers={"Authorization": f"Bearer {found[2]}"})
        with urlopen(asked, timeout=30) as answer:
            assert "No search yet" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in error
