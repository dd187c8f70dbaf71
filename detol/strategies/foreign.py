"""A strategy from a user's own file: what it does against the protocol, and what it raises, becomes one line."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeVar

from detol.errors import DetolError, UsageError
from detol.search.protocols import Strategy
from detol.search.records import Candidate, Trial
from detol.spaces.files import fault_in

Result = TypeVar("Result")


class Foreign:
    """Passes on what another strategy proposes, and checks it.

    Args:
        strategy: of the file.
        text: ``FILE.py`` or ``FILE.py:NAME``, as a person gave it.
    """

    def __init__(self, strategy: Strategy, text: str) -> None:
        self._strategy, self._text = strategy, text

    def __getattr__(self, name: str) -> Any:
        """Return what else the other strategy has (``expect``, say)."""
        if name.startswith("__") or name in {"_strategy", "_text"}:
            raise AttributeError(name)
        return getattr(self._strategy, name)

    def ask(self, count: int) -> Sequence[Candidate]:
        """Return what the strategy proposes.

        Raises:
            UsageError: it raises, or returns what is no sequence of at most ``count`` candidates.
        """
        found = guarded(self._text, "ask", lambda: self._strategy.ask(count))
        if not isinstance(found, Iterable) or not all(isinstance(each, Candidate) for each in found):
            raise UsageError(f"strategy {self._text}: ask must return a list of candidates, got {found!r:.80}")
        if len(found) > count:
            raise UsageError(
                f"strategy {self._text}: ask must return at most as many candidates as are asked for, "
                f"got {len(found)} for {count}"
            )
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Let the strategy learn.

        Raises:
            UsageError: it raises.
        """
        guarded(self._text, "tell", lambda: self._strategy.tell(trials))


def foreign(made: Callable[..., Strategy], text: str) -> Callable[..., Foreign]:
    """Return what makes a strategy of a file as its class does, with the same signature, and checks it."""

    @wraps(made)
    def make(*args: Any, **options: Any) -> Foreign:
        return Foreign(guarded(text, "its constructor", lambda: made(*args, **options)), text)

    return make


def guarded(text: str, where: str, call: Callable[[], Result]) -> Result:
    """Call into a user's file; what it raises becomes one line with the line of the file.

    Raises:
        UsageError: the call raised.
    """
    try:
        return call()
    except DetolError:
        raise
    except Exception as fault:
        raise UsageError(f"strategy {fault_in(text, fault)}, in {where}") from fault
