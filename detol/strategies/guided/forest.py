"""The surrogate for more than about a thousand observations: a forest of randomised trees.

Its cost grows as n log n, where that of a Gaussian process grows as n^3; the spread of the trees stands for the
uncertainty (Hutter et al. 2011, SMAC; Geurts et al. 2006, extremely randomised trees).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detol.embedding.graph_features import Floats
from detol.strategies.guided.acquisition import expected_improvement

TREES = 32
DRAWN = 2_000
"""Each tree sees at most so many observations, drawn with replacement."""


class Forest:
    """A regression forest with a mean and a deviation for each candidate.

    Args:
        inputs: float32 (n, columns).
        values: (n,), more is better.
        seed: of the trees; the same seed and data give the same forest.
    """

    def __init__(self, inputs: Floats, values: NDArray[np.float64], seed: int = 0) -> None:
        from sklearn.ensemble import ExtraTreesRegressor  # some 0.5 s, so not with this module

        self._best = float(values.max())
        self._trees: Any = ExtraTreesRegressor(
            n_estimators=TREES,
            min_samples_leaf=2,
            max_features=0.5,
            bootstrap=True,
            max_samples=min(len(values), DRAWN),
            random_state=seed,
        ).fit(inputs, values)
        self.columns = inputs.shape[1]

    def improvement(self, inputs: Floats) -> Floats:
        """Return the expected improvement on the best observed value, float32 (m,)."""
        votes = np.stack([tree.predict(inputs) for tree in self._trees.estimators_]).astype(np.float32)
        return expected_improvement(votes.mean(0), votes.std(0) + np.float32(1e-3), self._best)
