"""How many bytes a rank sends."""

from collections.abc import Mapping
from dataclasses import dataclass

Facts = dict[str, str | float | int]


@dataclass
class Meter:
    """Bytes that this rank sends to exchange gradients or weights, and the steps in which it does.

    What a message holds is measured where it is sent, with its indices; what that puts on the wire follows from the
    ring: of an all-reduce of M bytes over n ranks each sends 2 (n - 1) / n * M (Patarasuk and Yuan 2009), of an
    all-gather of M bytes from each it sends (n - 1) * M. Flags, losses, batch norm's statistics and the headers of
    messages are not counted.

    Args:
        width: ranks, n.
        sent: bytes so far.
        steps: so far.
    """

    width: int = 1
    sent: float = 0.0
    steps: int = 0

    def reduced(self, size: int) -> None:
        """Count an all-reduce of ``size`` bytes."""
        self.sent += 2 * (self.width - 1) / self.width * size

    def gathered(self, size: int) -> None:
        """Count an all-gather of ``size`` bytes from each rank."""
        self.sent += (self.width - 1) * size

    def restore(self, facts: Mapping[str, str]) -> None:
        """Go on from the facts of a checkpoint; those of a training that exchanged nothing have none."""
        self.sent = float(facts.get("bytes_sent", 0))
        self.steps = int(facts.get("steps_exchanged", 0))

    @property
    def facts(self) -> Facts:
        """Return ``bytes_sent``, ``bytes_per_step`` and ``steps_exchanged`` for the record; nothing before a step."""
        if not self.steps:
            return {}
        sent = round(self.sent)
        return {"bytes_sent": sent, "bytes_per_step": round(self.sent / self.steps), "steps_exchanged": self.steps}
