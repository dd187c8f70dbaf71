"""How steps are taken on a CUDA device, as the person says it."""

import os
from collections.abc import Mapping

from detol.errors import unknown

VARIABLE = "DETOL_STEP"
"""Environment variable: one of :data:`WAYS`. Workers inherit it."""
WAYS = ("auto", "eager", "graph", "compiled")
"""``eager``: operation by operation. ``graph``: the whole step in a CUDA graph. ``compiled``: that, with every block
compiled before it is used, and cuDNN trying its kernels. ``auto``: a graph, blocks being compiled while that costs less
than a tenth of the time."""


def way(environment: Mapping[str, str] = os.environ) -> str:
    """Return how steps are taken.

    Raises:
        UsageError: another word than those of :data:`WAYS`.
    """
    found = environment.get(VARIABLE) or "auto"  # set to nothing is not set, as in other programs
    if found not in WAYS:
        raise unknown(VARIABLE, found, WAYS)
    return found
