"""Data sets that scikit-learn brings along."""

import numpy as np

from detol.workers.data.raw import Part, Raw

NAMES = ("digits", "iris", "wine", "breast_cancer", "diabetes")


def read(name: str) -> Raw:
    """Return one of :data:`NAMES`: ``digits`` as (n, 8, 8) images, ``diabetes`` a regression, the others features."""
    import pandas as pd
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    classes = tuple(str(label) for label in bunch.target_names) if hasattr(bunch, "target_names") else None
    if name == "digits":
        return Raw(name, "builtin", {"train": Part(bunch.images.astype(np.float32), bunch.target)}, "image", classes)
    x = pd.DataFrame(bunch.data, columns=[str(column) for column in bunch.feature_names])
    return Raw(name, "builtin", {"train": Part(x, bunch.target)}, "features", classes, target="target")
