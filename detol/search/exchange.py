"""How the ranks of a training exchange what they learnt, by name: ``plain``, ``powersgd:2``, ``topk:0.01`` ...

No torch here: recipes are checked where nothing is trained. :mod:`detol.workers.communication` does the work.
"""

from dataclasses import dataclass

from detol.errors import UsageError, unknown

NAMES = ("plain", "fp16", "bf16", "powersgd", "topk", "local_sgd")
LATE = ("powersgd", "topk", "local_sgd")
"""Those in which a rank keeps something of its own from step to step."""
_VALUES: dict[str, tuple[str, float, str]] = {
    "powersgd": ("rank", 2.0, "a whole number, at least 1"),
    "topk": ("share", 0.01, "above 0 and at most 1"),
    "local_sgd": ("period", 4.0, "a whole number of steps, at least 2"),
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A way to exchange.

    Args:
        name: of :data:`NAMES`.
        value: of ``powersgd`` the rank, of ``topk`` the share of the gradient that is sent, of ``local_sgd`` the steps
            between two averages; 0 for the others.
    """

    name: str
    value: float = 0.0

    def __str__(self) -> str:
        """Return ``name`` or ``name:value``, as :func:`parse` takes it."""
        return f"{self.name}:{self.value:g}" if self.name in _VALUES else self.name


def parse(text: str) -> Exchange:
    """Return what ``name`` or ``name:value`` says; a value left out is the usual one.

    Raises:
        UsageError: an unknown name, or a value against its rule.
    """
    name, colon, value = text.partition(":")
    if name not in NAMES:
        raise unknown("recipe communication", name, NAMES)
    if name not in _VALUES:
        if colon:
            raise UsageError(f"recipe communication {name} takes no value, got {text!r}: write {name} alone")
        return Exchange(name)
    what, usual, rule = _VALUES[name]
    try:
        number = float(value) if colon else usual
    except ValueError:
        number = float("nan")
    fits = 0 < number <= 1 if name == "topk" else number >= 1 + (name == "local_sgd") and number.is_integer()
    if not fits:
        raise UsageError(
            f"the {what} of recipe communication {name} must be {rule}, got {value!r}: write {name}:{usual:g}"
        )
    return Exchange(name, number)
