"""A strategy: most proposals change one decision of one of the best trials, the others are drawn at random.

::

    detol search --data digits --strategy docs/examples/strategy.py --set strategy.elite=3
"""

from detol.search.records import Origin
from detol.strategies.base import Proposer


class NearTheBest(Proposer):
    """Mutates one of the best trials (``elite`` of them); one proposal in ten is a sample.

    ``Proposer`` keeps what was told (``self.told``), what is pending, and that nothing is proposed twice; all
    randomness comes from ``self.rng``, so that a seed reproduces the search and a resumed search goes on as if it had
    never ended.
    """

    def __init__(self, space, *, elite=5, seed=0, identity=None):
        super().__init__(space, seed=seed, identity=identity)
        self.elite = elite

    def propose(self):
        """Return one candidate, or ``None`` when this attempt led to one that is known: then it is asked again."""
        scored = sorted((told for told in self.told if told.scored), key=lambda told: -told.score)
        if not scored or self.rng.random() < 0.1:
            return self.sample()
        parent = scored[self.rng.integers(min(self.elite, len(scored)))]
        child = self.space.mutate(parent.decisions, self.rng)
        return self.candidate(child, Origin.MUTATE, (parent.number,))


STRATEGY = NearTheBest
