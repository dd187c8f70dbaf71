"""A recipe: how a candidate is trained. It has a digest, so that results under different recipes are never mixed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from detol.errors import UsageError, unknown
from detol.graph.ops import Value

OPTIMISERS = ("sgd", "adamw")
SCHEDULES = ("cosine", "one_cycle", "constant")
PRECISIONS = ("float32", "bfloat16")
AUGMENTATIONS = ("flip", "crop")
RECIPE_VERSION = "r1"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a candidate is trained; ``epochs`` is not part of it (it is the fidelity of a trial).

    Args:
        optimiser: ``sgd`` (momentum, Nesterov) or ``adamw``.
        learning_rate: peak of the schedule, > 0.
        momentum: of ``sgd``, in [0, 1).
        nesterov: of ``sgd``.
        weight_decay: >= 0; not applied to biases and norm parameters.
        schedule: ``cosine`` (to zero), ``one_cycle`` or ``constant``.
        warmup: share of all steps in which the rate rises linearly from zero, in [0, 1).
        batch_size: global batch: samples of one step over all ranks, >= 1.
        label_smoothing: in [0, 1); classification only.
        augment: names from ``flip`` (horizontal) and ``crop`` (random shift by an eighth, zeros outside), joined by
            commas; images only.
        clip: largest norm of the gradient; 0 for none.
        precision: ``float32`` or ``bfloat16`` (autocast).
        sync_norm: whether batch norm's statistics are taken over all ranks.
    """

    optimiser: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4
    schedule: str = "cosine"
    warmup: float = 0.1
    batch_size: int = 64
    label_smoothing: float = 0.0
    augment: str = ""
    clip: float = 5.0
    precision: str = "float32"
    sync_norm: bool = False

    def __post_init__(self) -> None:
        for name, known in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise unknown(f"recipe {name}", str(getattr(self, name)), known)
        for part in filter(None, self.augment.split(",")):
            if part not in AUGMENTATIONS:
                raise unknown("augmentation", part, AUGMENTATIONS)
        rules = {
            "learning_rate": (self.learning_rate > 0, "> 0"),
            "momentum": (0 <= self.momentum < 1, "in [0, 1)"),
            "weight_decay": (self.weight_decay >= 0, ">= 0"),
            "warmup": (0 <= self.warmup < 1, "in [0, 1)"),
            "batch_size": (self.batch_size >= 1, ">= 1"),
            "label_smoothing": (0 <= self.label_smoothing < 1, "in [0, 1)"),
            "clip": (self.clip >= 0, ">= 0"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                raise UsageError(f"recipe {name} must be {rule}, got {getattr(self, name)!r}")

    @property
    def anytime(self) -> bool:
        """Whether the first epochs of a longer training are a shorter one, to the bit.

        So it is where no learning rate depends on the number of all steps: a constant schedule without warm-up. The
        ninth epoch of a cosine over 27 is not the end of a cosine over 9.
        """
        return self.schedule == "constant" and self.warmup == 0

    @property
    def digest(self) -> str:
        """``r1:`` and 16 hexadecimal digits over all settings."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{RECIPE_VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def make_recipe(settings: Mapping[str, Value], base: Recipe | None = None) -> Recipe:
    """Return a recipe with some settings changed; text is converted to each setting's type.

    Raises:
        UsageError: an unknown setting, or a value against its rule.
    """
    known = {f.name: f for f in fields(Recipe)}
    values = asdict(base or Recipe())
    for name, value in settings.items():
        if name not in known:
            raise unknown("recipe setting", name, known)
        values[name] = _convert(name, value, type(values[name]))
    return Recipe(**values)


def _convert(name: str, value: Value, kind: type) -> Value:
    if kind is bool and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise UsageError(f"recipe {name} must be true or false, got {value!r}")
        return value.lower() == "true"
    try:
        return kind(value)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise UsageError(f"recipe {name} must be of type {kind.__name__}, got {value!r}") from None
