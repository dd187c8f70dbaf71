"""Optimisers for large batches: each layer moves by a trust ratio of its own."""

from detol.workers.large_batch.lamb import Lamb
from detol.workers.large_batch.lars import Lars

__all__ = ["Lamb", "Lars"]
