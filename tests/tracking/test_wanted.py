"""What of a trial is shown."""

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, State, Trial
from detol.spaces.decisions import Decisions
from detol.tracking.wanted import LONGEST, Wanted


def test_what_was_measured_for_a_strategy_is_no_tag() -> None:
    candidate = Candidate(Decisions(), chain(op("linear", features=2)), Origin.PRUNE)
    extra = {"device": "cpu", "params": 3.0, "neurons": "x" * (LONGEST + 1), "short": "x" * LONGEST}
    facts = dict(Wanted.seen(Trial(0, candidate, State.COMPLETED, 1, extra=extra), 0.0).facts())
    assert facts["extra.device"] == "cpu"
    assert facts["extra.params"] == 3.0
    assert "extra.short" in facts
    assert "extra.neurons" not in facts
