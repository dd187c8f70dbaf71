"""Defaults that depend on the data: recipe, objective, workers."""

from collections.abc import Sequence
from dataclasses import replace

from detol.search.recipe import Recipe
from detol.search.records import Objective
from detol.workers import devices

COSTS = ("params", "multiply_adds", "activation_bytes", "depth")
"""What is known of a topology before it is trained; objectives too."""

AVERAGING = 0.98
"""Of the weights that networks are compared by before their training ends (docs/recipes.md says what it is worth)."""

SMALLEST_CROPPED = 16
"""Sizes of all axes from which images and signals are shifted at random in training."""

SMALLEST_HALVED = 16
"""Sizes of all axes from which images train faster in bfloat16, where anything does."""

METRICS = {
    "classification": ("val_accuracy", "val_balanced_accuracy", "val_log_loss", "val_loss", "train_loss"),
    "regression": ("val_r2", "val_mse", "val_loss", "train_loss"),
}
"""What a report holds, by task; the first is the default objective."""


def precision(task: str, kind: str, shape: Sequence[int], device: str, *, elsewhere: bool = False) -> str:
    """Return what candidates multiply in by default: ``bfloat16`` where that is faster, else ``float32``.

    It is for images that are not tiny on processors with AMX (docs/steps.md says by how much). Other data gain nothing,
    and what is small enough for a default search leaves a GPU waiting for launches in either format. Regressions keep
    ``float32``: three digits are too few for a close fit.

    Args:
        task: ``classification`` or ``regression``.
        kind: ``image``, ``signal`` or ``features``.
        shape: of one sample, channels first.
        device: of the workers: ``auto``, ``cpu`` or ``cuda``.
        elsewhere: whether the workers may be on other machines, of whose processors nothing is known.
    """
    gains = task == "classification" and kind == "image" and min(shape[1:], default=0) >= SMALLEST_HALVED
    here = not elsewhere and not devices.uses_gpu(device)
    return "bfloat16" if gains and here and devices.multiplies_bfloat16() else "float32"


def recipe(kind: str, shape: Sequence[int], samples: int, precision: str = "float32") -> Recipe:
    """Return how candidates are trained by default.

    Args:
        kind: ``image``, ``signal`` or ``features``.
        shape: of one sample, channels first.
        samples: training rows.
        precision: as :func:`precision` says for the workers' device.
    """
    batch = 32 if samples < 3_000 else 64 if samples < 20_000 else 128
    usual = Recipe(schedule="one_cycle", batch_size=batch, averaging=AVERAGING, precision=precision)
    crop = "crop" if min(shape[1:], default=0) >= SMALLEST_CROPPED else ""  # shifts cost accuracy at 8x8
    # On validation rows: of three tables, decay 0.1 and rate 6e-3 together were better than 0.01 and 3e-3; of two sets
    # of signals each alone was.
    if kind in ("features", "signal"):
        warmup = 0.2 if kind == "features" else 0.1
        return replace(usual, optimiser="adamw", learning_rate=6e-3, weight_decay=0.1, warmup=warmup, augment=crop)
    # A mirrored digit is no digit: flips for colour images alone.
    augment = f"flip,{crop}" if crop and shape[0] == 3 else crop
    decay = 5e-3 if samples < 3_000 else 1.5e-3 if samples < 20_000 else 5e-4
    return replace(usual, learning_rate=0.1, weight_decay=decay, augment=augment)


def objectives(task: str, *, front: bool = False) -> tuple[Objective, ...]:
    """Return the default objective of a task; for a strategy that seeks a front also the number of parameters."""
    return (Objective(METRICS[task][0]), *([Objective("params", minimise=True)] if front else []))


def workers(device: str) -> int:
    """Return one worker for each GPU that this process may use, without one for each CPU core."""
    return (devices.gpus() if device != "cpu" else 0) or devices.cpus()
