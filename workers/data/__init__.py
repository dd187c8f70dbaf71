"""Data sets: reading, splitting, measuring. Training standardises batch by batch."""

from detol.workers.data.builtin import NAMES as BUILTIN
from detol.workers.data.dataset import Dataset, Split
from detol.workers.data.reading import read

__all__ = ["BUILTIN", "Dataset", "Split", "read"]
