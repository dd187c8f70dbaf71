"""Seeds of trials: from the search's seed and the topology, not from the order of arrival or the number of workers."""

import hashlib


def trial_seed(search_seed: int, digest: str) -> int:
    """Return a seed in [0, 2**31) for the training of one topology in one search."""
    return int.from_bytes(hashlib.sha256(f"{search_seed}/{digest}".encode()).digest()[:4], "big") >> 1
