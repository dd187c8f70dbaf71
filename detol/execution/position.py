"""Checkpoints of executors that need to know no more than how far a job has come."""

import json

from detol.errors import CheckpointError

_KEY = "epochs_over"


def position(epoch: int) -> bytes:
    """Return a checkpoint that says how many epochs are over."""
    return json.dumps({_KEY: epoch}).encode()


def epoch_of(checkpoint: bytes, epochs: int) -> int:
    """Return how many epochs are over of a job of ``epochs``.

    Raises:
        CheckpointError: bytes that :func:`position` did not make, or that do not fit the job.
    """
    try:
        epoch = json.loads(checkpoint)[_KEY]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError("these bytes are not a checkpoint of this executor: start again") from None
    if not isinstance(epoch, int) or not 1 <= epoch < epochs:
        raise CheckpointError(f"a checkpoint is in [1, {epochs}) epochs, got {epoch}: start again")
    return epoch
