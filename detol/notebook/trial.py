"""One trial, to look at."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from detol.graph import codec
from detol.graph.topology import Topology
from detol.notebook.drawing import Drawing
from detol.results.query import Query

if TYPE_CHECKING:
    import pandas as pd


class TrialView:
    """A trial as the results database has it: a notebook shows its facts and its topology.

    Args:
        shown: everything about it, as :meth:`detol.results.query.Query.show` returns it.
        shape: of one sample of its data.

    Attributes:
        ref: ``SEARCH/NUMBER``.
        value: of the primary objective in its natural direction; ``None`` when it has none.
        state: where it stands.
        decisions: that led to its topology.
        topology: the network's graph.
        facts: everything else, by name.
    """

    def __init__(self, shown: Mapping[str, Any], shape: tuple[int, ...]) -> None:
        self.facts = dict(shown)
        self.ref: str = shown["trial"]
        self.value: float | None = shown["value"]
        self.state: str = shown["state"]
        self.decisions: dict[str, Any] = dict(shown["decisions"])
        self.topology: Topology = codec.from_json(json.dumps(shown["topology"]))
        self._shape = shape

    @classmethod
    def read(cls, query: Query, ref: str) -> "TrialView":
        """Return a trial, or the best one of a search.

        Raises:
            ResultsError: there is none.
        """
        found = query.resolve(ref)
        return cls(query.show(found.ref), query.sample_of(found)[0])

    @property
    def drawing(self) -> Drawing:
        """The topology, drawn."""
        return Drawing(self.topology, self._shape, title=f"the topology of {self.ref}")

    @property
    def curve(self) -> "pd.DataFrame":
        """The learning curve: epoch, seconds, and every metric of the reports."""
        import pandas as pd

        rows = [{"epoch": row["epoch"], **row["metrics"], "seconds": row["seconds"]} for row in self.facts["curve"]]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        """Return e.g. ``Trial('digits-1/2', completed, val_accuracy 0.9965)``."""
        value = "" if self.value is None else f", {self.facts['metric']} {self.value:.4f}"
        return f"Trial({self.ref!r}, {self.state}{value})"

    def _repr_html_(self) -> str:
        from detol.notebook.card import trial_card

        return trial_card(self.facts, self.drawing)
