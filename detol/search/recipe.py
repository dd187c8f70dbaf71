"""A recipe: how a candidate is trained. It has a digest, so that results under different recipes are never mixed."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from detol.errors import UsageError, unknown
from detol.graph.ops import Value
from detol.search.exchange import LATE, parse

OPTIMISERS = ("sgd", "adamw", "lars", "lamb")
SCHEDULES = ("cosine", "one_cycle", "constant", "step", "grow_batch")
PRECISIONS = ("float32", "bfloat16", "float16")
AUGMENTATIONS: Mapping[str, tuple[str, ...]] = {"flip": ("image",), "crop": ("image", "signal")}
"""The kinds of data that each is for."""
RECIPE_VERSION = "r1"
_FIRST = (
    *("optimiser", "learning_rate", "momentum", "nesterov", "weight_decay", "schedule", "warmup", "batch_size"),
    *("label_smoothing", "augment", "clip", "precision", "sync_norm"),
)
"""Settings that every ``r1`` digest covers. A later one is in it only where it differs from its default, which is what
was done before there was such a setting: digests of old recipes stay as they are."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a candidate is trained; ``epochs`` is not part of it (it is the fidelity of a trial).

    Args:
        optimiser: ``sgd`` (momentum, Nesterov), ``adamw``, or for large batches ``lars`` (You et al. 2017) or ``lamb``
            (You et al. 2020).
        learning_rate: peak of the schedule, > 0 and finite; with ``base_batch`` that of a batch of this size.
        momentum: of ``sgd`` and ``lars``, in [0, 1).
        nesterov: of ``sgd``.
        weight_decay: >= 0 and finite; not applied to biases and norm parameters.
        schedule: ``cosine`` (to zero), ``one_cycle``, ``constant``, ``step`` (falls by ``step_factor`` three times) or
            ``grow_batch`` (instead of each fall the batch grows by that factor: Smith et al. 2018).
        warmup: share of all steps in which the rate rises linearly from zero, in [0, 1).
        batch_size: global batch: samples of one step over all ranks, >= 1.
        label_smoothing: in [0, 1); classification only.
        augment: names from ``flip`` (horizontal; images only) and ``crop`` (random shift by up to an eighth; around
            images zeros come in, at the ends of signals the last value repeats), joined by commas.
        clip: largest norm of the gradient; 0 for none.
        precision: ``float32``, ``bfloat16`` (autocast) or ``float16`` (autocast, the loss scaled dynamically).
        sync_norm: whether batch norm's statistics are taken over all ranks.
        communication: how the ranks exchange gradients: ``plain``, ``fp16``, ``bf16``, ``powersgd:RANK``,
            ``topk:SHARE`` or ``local_sgd:PERIOD``; one rank alone has nothing to exchange.
        accumulate: micro-batches in which a rank goes through its part of a batch, one after the other, >= 1.
        base_batch: the batch to which ``learning_rate`` belongs: the peak is scaled by ``batch_size / base_batch``, and
            the warm-up starts from the rate itself (Goyal et al. 2017); 0: the rate is for ``batch_size``.
        step_factor: of ``step`` and ``grow_batch``, in (1, 1e6].
        max_batch: largest batch of ``grow_batch``, beyond which the rate falls; 0: a tenth of the training samples.
        averaging: decay per step of the moving average of the weights by which a training is measured before its last
            epoch, in [0, 1); 0: by the weights themselves.
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
    communication: str = "plain"
    accumulate: int = 1
    base_batch: int = 0
    step_factor: float = 5.0
    max_batch: int = 0
    averaging: float = 0.0

    def __post_init__(self) -> None:
        for name, known in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise unknown(f"recipe {name}", str(getattr(self, name)), known)
        for part in filter(None, self.augment.split(",")):
            if part not in AUGMENTATIONS:
                raise unknown("augmentation", part, AUGMENTATIONS)
        # With its value spelt out, so that two spellings of one way have one digest.
        exchange = parse(self.communication)
        object.__setattr__(self, "communication", str(exchange))
        if self.precision == "float16" and exchange.name in LATE:
            raise UsageError(
                f"recipe communication {exchange.name} keeps what the scale of float16's loss changes under it: "
                "use precision bfloat16"
            )
        if self.averaging and exchange.name == "local_sgd":
            raise UsageError(
                "recipe averaging is of weights that all ranks share, those of communication local_sgd differ: use 0"
            )
        rules = {
            "learning_rate": (0 < self.learning_rate < math.inf, "> 0 and finite"),
            "momentum": (0 <= self.momentum < 1, "in [0, 1)"),
            "weight_decay": (0 <= self.weight_decay < math.inf, ">= 0 and finite"),
            "warmup": (0 <= self.warmup < 1, "in [0, 1)"),
            "batch_size": (self.batch_size >= 1, ">= 1"),
            "label_smoothing": (0 <= self.label_smoothing < 1, "in [0, 1)"),
            "clip": (self.clip >= 0, ">= 0"),
            "accumulate": (self.accumulate >= 1, ">= 1"),
            "base_batch": (self.base_batch >= 0, ">= 1, or 0 for a rate that is not scaled"),
            "step_factor": (1 < self.step_factor <= 1e6, "> 1 and at most 1e6"),
            "averaging": (0 <= self.averaging < 1, "in [0, 1)"),
            "max_batch": (self.max_batch >= 0, ">= 1, or 0 for a tenth of the training samples"),
        }
        for name, (kept, rule) in rules.items():
            if not kept:
                raise UsageError(f"recipe {name} must be {rule}, got {getattr(self, name)!r}")

    @property
    def anytime(self) -> bool:
        """Whether the first epochs of a longer training are a shorter one, to the bit.

        So it is where no learning rate depends on the number of all steps: a constant schedule without warm-up. The
        ninth epoch of a cosine over 27 is not the end of a cosine over 9, nor is one measured by averaged weights.
        """
        return self.schedule == "constant" and self.warmup == 0 and not self.averaging

    @property
    def peak(self) -> float:
        """The highest learning rate of the schedule: linear in the batch (Goyal et al. 2017, arXiv 1706.02677, 2.1)."""
        return self.learning_rate * (self.batch_size / self.base_batch if self.base_batch else 1.0)

    @property
    def digest(self) -> str:
        """``r1:`` and 16 hexadecimal digits over all settings that are not as they always were."""
        usual = {f.name: f.default for f in fields(self)}
        told = {name: value for name, value in asdict(self).items() if name in _FIRST or value != usual[name]}
        text = json.dumps(told, sort_keys=True)
        return f"{RECIPE_VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def make_recipe(settings: Mapping[str, Value], base: Recipe | None = None) -> Recipe:
    """Return a recipe with some settings changed; text is converted to each setting's type.

    Averaging that ``settings`` do not ask for is left out where it does not fit the way of exchange.

    Raises:
        UsageError: an unknown setting, or a value against its rule.
    """
    known = {f.name: f for f in fields(Recipe)}
    values = asdict(base or Recipe())
    for name, value in settings.items():
        if name not in known:
            raise unknown("recipe setting", name, known)
        values[name] = _convert(name, value, type(values[name]))
    if "averaging" not in settings and str(values["communication"]).startswith("local_sgd"):
        values["averaging"] = 0.0
    return Recipe(**values)


def check_augment(names: str, kind: str) -> None:
    """Check that the augmentations of a recipe are for data of a kind (``image``, ``signal``, ``features``).

    Raises:
        UsageError: one is not.
    """
    for name in filter(None, names.split(",")):
        if kind not in AUGMENTATIONS[name]:
            kinds = " and ".join(f"{fitting}s" for fitting in AUGMENTATIONS[name])
            raise UsageError(f"recipe augment {name} is for {kinds}, the data are of kind {kind}: leave it out")


def _convert(name: str, value: Value, kind: type) -> Value:
    if kind is bool:
        told = {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower())
        if told is None:
            raise UsageError(f"recipe {name} must be true or false, got {value!r}")
        return told
    if kind is int and (isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())):
        raise UsageError(f"recipe {name} must be a whole number, got {value!r}")
    try:
        return kind(value)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise UsageError(f"recipe {name} must be of type {kind.__name__}, got {value!r}") from None
