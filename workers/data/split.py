"""Splits: which rows validate a search and which are kept for the one test at its end."""

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]

# The rows held out for the test do not depend on the seed of a search: else a row that tests the winner of one search
# would have trained the topologies that another search then reuses.
TEST_SEED = 20170401


def hold_out(y: npt.NDArray[np.generic], share: float, seed: int, *, stratified: bool) -> tuple[Rows, Rows]:
    """Return the rows that stay and those held out, both ascending.

    Stratified, each class gives its share by largest remainder, so that ``round(share * n)`` rows are held out in all
    and each class differs from its exact share by less than one row; a class never gives its last member.

    Args:
        y: labels (n,), whole numbers where ``stratified``.
        share: to hold out, in [0, 1).
        seed: the same seed, labels and share give the same rows.
        stratified: whether classes keep their shares; else rows are drawn uniformly.
    """
    rng = np.random.default_rng(seed)
    count = round(share * len(y))
    if not stratified:
        held = np.sort(rng.permutation(len(y))[:count])
        return np.setdiff1d(np.arange(len(y)), held), held
    _, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    quotas = _quotas(sizes, count)
    chosen = [rng.permutation(np.flatnonzero(codes == code))[:quota] for code, quota in enumerate(quotas)]
    held = np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.int64)
    return np.setdiff1d(np.arange(len(y)), held), held


def _quotas(sizes: npt.NDArray[np.int64], count: int) -> Rows:
    """Share ``count`` out in proportion to ``sizes`` by largest remainder, leaving each class at least one."""
    exact = count * sizes / max(1, sizes.sum())
    quotas = np.minimum(np.floor(exact).astype(np.int64), sizes - 1)
    order = np.argsort(quotas - exact, kind="stable")  # largest remainder first
    for code in order:
        if quotas.sum() < count and quotas[code] < sizes[code] - 1:
            quotas[code] += 1
    return np.asarray(quotas, dtype=np.int64)
