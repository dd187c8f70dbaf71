"""What shows a running search to a person."""

from typing import Protocol

from detol.search.controller import Controller
from detol.search.records import Objective


class Watcher(Protocol):
    """Shows a running search to a person."""

    def started(self, search: Controller, objective: Objective) -> None:
        """Take note of the controller that is about to run (to interrupt it, say)."""
        ...

    def __call__(self, search: Controller) -> None:
        """Look at the search; called once a turn."""
        ...

    def say(self, text: str) -> None:
        """Show one line."""
        ...

    def close(self) -> None:
        """Stop showing."""
        ...


class Quiet:
    """A watcher that shows nothing."""

    def started(self, search: Controller, objective: Objective) -> None:
        """Do nothing."""

    def __call__(self, search: Controller) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
