"""Consoles that write into memory."""

import io
import re
from collections.abc import Callable

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
