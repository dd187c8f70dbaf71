"""One training step behind a small object: eager is one kind, a CUDA graph another; and what an epoch hands to it."""

from detol.workers.stepping.base import Learner, Step
from detol.workers.stepping.choose import choose, facts
from detol.workers.stepping.eager import Eager
from detol.workers.stepping.epoch import Batch, Epoch, Position
from detol.workers.stepping.pace import Pace
from detol.workers.stepping.scaling import LossScale
from detol.workers.stepping.schedule import Schedule

__all__ = ["Batch", "Eager", "Epoch", "Learner", "LossScale", "Pace", "Position", "Schedule", "Step", "choose", "facts"]
