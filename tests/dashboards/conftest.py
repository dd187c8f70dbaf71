"""Consoles that write into memory, and a browser."""

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(Console):
    """A console in memory; ``text`` is what it shows, without the codes of colours and of the cursor."""

    def __init__(self, *, width: int = 120, terminal: bool = False) -> None:
        self.written = io.StringIO()
        super().__init__(file=self.written, width=width, force_terminal=terminal, _environ={})

    @property
    def text(self) -> str:
        return _CONTROL.sub("", self.written.getvalue())

    def take(self) -> str:
        """Return the text so far, and start afresh."""
        text = self.text
        self.written.seek(0)
        self.written.truncate()
        return text


@pytest.fixture
def screen() -> Callable[..., Screen]:
    return Screen


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a window."""
    api = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=options)
        yield started
        started.close()
