"""Fixtures of several parts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from detol import cli


@pytest.fixture
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of its own, so that what is written by default is written there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DETOL_RUNS", raising=False)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command; return (exit code, standard output, standard error)."""

    def called(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


@pytest.fixture(scope="session")
def local_ray() -> "Iterator[None]":
    """Keep one Ray for the whole run: each executor that starts meanwhile uses it and brings its own workers."""
    from detol.workers.local_ray import LocalRay

    held = LocalRay.acquire(2, None, 0)
    held.wait()
    yield
    held.release()
