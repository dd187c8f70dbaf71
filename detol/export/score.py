"""The score of the exported weights, computed again on the whole validation split, beside the recorded one."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from detol.errors import DetolError

if TYPE_CHECKING:
    from detol.search.records import Trial


class ExportError(DetolError):
    """An exported file that does not do what the network does."""


TOLERANCE = {"accuracy": 1e-3, "mse": 1e-3}
"""How far a score may be from the recorded one: accuracy absolute (and at least one sample), MSE relative.

The same weights on another device or another number of threads round float32 otherwise, which moves samples that lie
on the border of two classes. Another training of the same topology is usually further away.
"""

BFLOAT16 = 10.0
"""Times so much when training's forward pass had bfloat16's 8 bits of mantissa; the export computes in float32."""


def score(outputs: NDArray[Any], target: NDArray[Any], task: str) -> dict[str, float]:
    """Return the accuracy of logits (N, classes), or the mean squared error of values (N,) in the target's units.

    Written out here, so that a fault in training's own metrics would show as a difference.
    """
    if task == "classification":
        return {"accuracy": float(np.mean(outputs.argmax(axis=1) == target))}
    return {"mse": float(np.mean((outputs.astype(np.float64) - target) ** 2))}


def compare(
    trial: "Trial",
    found: dict[str, float],
    samples: int,
    *,
    spread: float = 1.0,
    precision: str = "float32",
    again: bool = False,
) -> dict[str, Any] | None:
    """Compare a score with what the trial's last report holds; ``None`` when the report does not hold it.

    Args:
        trial: whose weights they are said to be.
        found: from :func:`score`, over the whole validation split.
        samples: in that split.
        spread: standard deviation of a regression's target: errors far below it are rounding.
        precision: of the recipe.
        again: whether these are the weights of another training, which may score otherwise.

    Raises:
        ExportError: they differ by more than the tolerance: these are other weights than the trial's.
    """
    ((name, value),) = found.items()
    metrics = trial.reports[-1].metrics if trial.reports else {}
    recorded = metrics.get(f"val_{name}")
    if recorded is None:
        return None
    share = TOLERANCE[name] * (BFLOAT16 if precision == "bfloat16" else 1.0)
    if name == "accuracy":
        allowed = max(share, (1 + 1e-6) / samples)
    else:
        allowed = max(share * abs(recorded), 1e-6 * spread**2)
    if not again and not abs(value - recorded) <= allowed:
        remedy = f"remove {trial.weights}" if trial.weights else "search again under another name"
        raise ExportError(
            f"exported weights must score as trial {trial.number} did, val_{name} {recorded:.6g} within {allowed:.2g}, "
            f"and these score {value:.6g}, so they are of another training: {remedy} to have it trained again"
        )
    return {
        "metric": f"val_{name}",
        "recorded": recorded,
        "recomputed": value,
        "difference": abs(value - recorded),
        "tolerance": allowed,
        "samples": samples,
        "trained_again": again,
    }
