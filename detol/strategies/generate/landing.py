"""From decoded topologies to decisions of a space: what is decoded need not be a member."""

from collections.abc import Sequence

import torch
from torch import Tensor

from detol.errors import DetolError, SpaceError
from detol.graph.digest import digest
from detol.graph.topology import Topology
from detol.search.protocols import SearchSpace
from detol.spaces.decisions import Decisions

REMEMBERED = 50_000


class Landing:
    """Finds the decisions of decoded topologies.

    A topology that is a member of the space has the decisions that the space reads from it (``space.read``: verified
    by its digest). Whatever is not (no graph at all, not a member, or a space that cannot read) lands on the topology
    nearest in the latent space, by squared distance, among some that are given: so every point leads into the space.

    Args:
        space: where to land.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._known: dict[str, Decisions | None] = {}
        self._reads = hasattr(space, "read")
        self.members = 0
        """Decoded topologies that were members, ..."""
        self.others = 0
        """... and those that were not."""

    def read(self, topology: Topology | None) -> Decisions | None:
        """Return decisions that lead to the topology, ``None`` where there are none."""
        if topology is None or not self._reads:
            return None
        try:
            key = digest(topology)
            if key not in self._known:
                self._known[key] = self._space.read(topology)  # type: ignore[attr-defined]  # asked for above
                if len(self._known) > REMEMBERED:
                    del self._known[next(iter(self._known))]
        except SpaceError:  # too large to list, and declared without a reader
            self._reads = False
            return None
        except DetolError:
            return None
        return self._known[key]

    def land(
        self, topologies: Sequence[Topology | None], points: Tensor, near: Sequence[Decisions], at: Tensor
    ) -> list[Decisions]:
        """Return decisions for each decoded topology.

        Args:
            topologies: decoded, n.
            points: they were decoded from, (n, columns).
            near: decisions to land on otherwise, at least one.
            at: their latent points, (m, columns).
        """
        found = [self.read(topology) for topology in topologies]
        self.members += sum(decisions is not None for decisions in found)
        self.others += sum(decisions is None for decisions in found)
        places = torch.cdist(points, at).argmin(1).tolist()
        return [near[place] if decisions is None else decisions for decisions, place in zip(found, places, strict=True)]
