"""How the ranks of a training exchange what they learnt: by the name in the recipe, with the bytes counted."""

from detol.workers.communication.base import Communication
from detol.workers.communication.choose import communicate
from detol.workers.communication.memory import Memory, gather, memory_of
from detol.workers.communication.meter import Meter

__all__ = ["Communication", "Memory", "Meter", "communicate", "gather", "memory_of"]
