"""What keeps training with large batches as good as with small ones: trust ratios, and batches that grow."""

from detol.workers.large_batch.growth import MILESTONES, Stage, stage
from detol.workers.large_batch.lamb import Lamb
from detol.workers.large_batch.lars import Lars

__all__ = ["MILESTONES", "Lamb", "Lars", "Stage", "stage"]
