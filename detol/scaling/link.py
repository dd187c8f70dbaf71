"""How long the ranks of a group take to add up their gradients."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """What connects neighbours of a ring.

    Args:
        bandwidth: bytes a second in one direction, > 0.
        latency: seconds of one message between neighbours, >= 0.
        call: seconds that a collective call takes besides its messages, >= 0.
    """

    bandwidth: float
    latency: float = 0.0
    call: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bandwidth > 0 and self.latency >= 0 and self.call >= 0):
            raise ValueError(f"a link has a bandwidth > 0 and a latency >= 0, got {self}")


def ring_seconds(size: float, ranks: int, link: Link) -> float:
    """Return the seconds of a ring all-reduce of ``size`` bytes over some ranks; 0 for one.

    2 (n - 1) / n * M / bandwidth + 2 (n - 1) * latency: n - 1 rounds that add up and n - 1 that hand on, each of M / n
    bytes (Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms, section 3).
    """
    if ranks <= 1:
        return 0.0
    rounds = 2 * (ranks - 1)
    return link.call + rounds * (size / ranks / link.bandwidth + link.latency)
