"""Which workers still hold an open group with each other: a trial of the same ranks need not form one again."""

from collections.abc import Sequence


class Gangs:
    """Groups that are kept open, by the numbers of their workers in the order of the ranks; each worker is in one.

    Forming a group costs some hundredths of a second with gloo and seconds with NCCL.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[int, ...], int] = {}

    def choose(self, idle: Sequence[int], width: int) -> list[int]:
        """Return ``width`` of the idle workers in the order of their ranks: a gang of that size where one is idle.

        Otherwise those in no gang come first, so that few are broken up.
        """
        there = set(idle)
        for members in reversed(self._names):
            if len(members) == width and there.issuperset(members):
                return list(members)
        bound = {worker for members in self._names for worker in members}
        return sorted(idle, key=lambda worker: (worker in bound, worker))[:width]

    def name(self, workers: Sequence[int]) -> int | None:
        """Return the name of the group that these workers hold in this order; ``None`` when they do not."""
        return self._names.get(tuple(workers))

    def begin(self, workers: Sequence[int]) -> None:
        """Note that these workers form another group: whatever they were in is gone."""
        for worker in workers:
            self.forget(worker)

    def keep(self, workers: Sequence[int], name: int) -> None:
        """Note that these workers keep their group open under a name."""
        self.begin(workers)
        self._names[tuple(workers)] = name

    def forget(self, worker: int) -> None:
        """Note that the process of a worker is another one now."""
        self._names = {members: name for members, name in self._names.items() if worker not in members}
