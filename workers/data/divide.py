"""From the parts that a source brings to train, validation and test."""

from dataclasses import dataclass

import numpy as np

from detol.errors import DataError
from detol.workers.data.raw import Part
from detol.workers.data.split import TEST_SEED, hold_out

LEAST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Shares:
    """How to split; see :func:`detol.workers.data.read`."""

    validation: float
    test: float
    seed: int
    limit: int | None


def divide(parts: dict[str, Part], shares: Shares, notes: list[str], *, classes: bool) -> tuple[dict[str, Part], str]:
    """Hold out what the source does not bring: the test first, then what is over the limit, then the validation.

    Args:
        parts: with class indices or quantities for labels.
        shares: how much to hold out.
        notes: gets what a person should know.
        classes: whether labels are class indices, whose shares are kept.

    Returns:
        The parts, and how the test came about; empty when the source brought it.

    Raises:
        DataError: too few samples, or a limit that is too small or beyond them.
    """
    pool, test_from = parts["train"], ""
    total = len(pool.y) + _count(parts, "validation")
    if total < LEAST_SAMPLES:
        raise DataError(f"a search needs at least {LEAST_SAMPLES} labelled samples, got {total}; bring more")
    alone = int((np.bincount(pool.y) == 1).sum()) if classes else 0
    if alone:
        notes.append(f"{alone} classes have one sample only: it trains, and is neither validated nor tested")
    if not _count(parts, "test"):
        test_from = "none"
        if shares.test:
            rest, held = hold_out(pool.y, shares.test, TEST_SEED, stratified=classes)
            parts, pool = {**parts, "test": pool.take(held)}, pool.take(rest)
            how = ", stratified" if classes else ""
            test_from = f"held out, {shares.test:.0%} of the rows{how}, the same for every seed"
    parts = _limit({**parts, "train": pool}, shares, classes)
    if not _count(parts, "validation"):
        pool = parts["train"]
        rest, held = hold_out(pool.y, shares.validation, shares.seed, stratified=classes)
        parts = {**parts, "validation": pool.take(held), "train": pool.take(rest)}
    for role in ("train", "validation"):
        if not _count(parts, role):
            raise DataError(f"the {role} split needs samples: {total} leave none for it; change the shares")
    return parts, test_from


def _limit(parts: dict[str, Part], shares: Shares, classes: bool) -> dict[str, Part]:
    limit, given = shares.limit, _count(parts, "validation")
    if limit is None:
        return parts
    pool = parts["train"]
    most = len(pool.y) + given
    least = max(LEAST_SAMPLES, 2 * len(np.unique(pool.y)) if classes else 0)
    if not least <= limit <= most:
        raise DataError(
            f"limit must be between {least} (two of each class, {LEAST_SAMPLES} at least) and the {most} samples that"
            f" train and validate, got {limit}"
        )
    keep = round(limit * len(pool.y) / most)
    parts = {**parts, "train": _draw(pool, keep, shares.seed, classes)}
    if given:
        parts["validation"] = _draw(parts["validation"], limit - keep, shares.seed, classes)
    return parts


def _draw(part: Part, count: int, seed: int, classes: bool) -> Part:
    if count >= len(part.y):
        return part
    rest, _ = hold_out(part.y, 1 - count / len(part.y), seed + 1, stratified=classes)
    return part.take(rest)


def _count(parts: dict[str, Part], role: str) -> int:
    return len(parts[role].y) if role in parts else 0
