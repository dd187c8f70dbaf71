import pytest

from detol.errors import UsageError
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Origin, Report, State, Trial, Verdict
from detol.spaces.decisions import Decisions
from detol.stopping.asha import Asha
from detol.stopping.median import MedianStop
from detol.stopping.plateau import Plateau


@pytest.mark.parametrize(
    ("kind", "options", "rule"),
    [
        (Asha, {"epochs": 9, "eta": 1}, "eta must be a whole number of at least 2, got 1"),
        (Asha, {"epochs": 9, "eta": 2.5}, "eta must be a whole number"),
        (Asha, {"epochs": 9, "grace": 0}, "grace must be a whole number of at least 1, got 0"),
        (Asha, {"epochs": 9, "grace": 10}, "grace must be at most the 9 epochs of a trial, got 10"),
        (Asha, {"epochs": 0}, "epochs must be"),
        (MedianStop, {"startup": 0}, "startup must be"),
        (MedianStop, {"warmup": -1}, "warmup must be"),
        (Plateau, {"epochs": 9, "patience": 0}, "patience must be"),
        (Plateau, {"epochs": 9, "delta": -0.1}, "delta must be"),
        (Plateau, {"epochs": 9, "delta": float("nan")}, "delta must be"),
    ],
)
def test_options_against_their_rules_are_refused_in_one_line(kind, options, rule) -> None:
    with pytest.raises(UsageError, match=rule) as error:
        kind(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("epochs", "options", "rungs"),
    [
        (81, {"eta": 3, "grace": 1}, (1, 3, 9, 27)),  # Li et al. 2020, table 1: R = 81, eta = 3, s = 0
        (81, {"eta": 3, "grace": 9}, (9, 27)),
        (9, {}, (1, 3)),
        (100, {}, (12, 36)),
        (1, {}, ()),
        (5, {"grace": 5}, ()),
    ],
)
def test_rungs_of_asha(epochs, options, rungs) -> None:
    assert Asha(epochs=epochs, **options).rungs == rungs


def _trial(curve: list[float], epochs: int = 9) -> Trial:
    candidate = Candidate(Decisions(a=1), chain(op("identity")), Origin.SAMPLE)
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(0, candidate, State.RUNNING, epochs, reports=reports, curve=tuple(curve))


@pytest.mark.parametrize(
    ("curve", "delta", "verdict"),
    [
        ([0.1, 0.2, 0.3, 0.4], 0.0, Verdict.CONTINUE),
        ([0.4, 0.3, 0.4], 0.0, Verdict.CONTINUE),  # two epochs without a rise
        ([0.4, 0.3, 0.4, 0.39], 0.0, Verdict.STOP),  # three
        ([0.4, 0.3, 0.4, 0.41], 0.0, Verdict.CONTINUE),
        ([0.4, 0.3, 0.4, 0.41], 0.05, Verdict.STOP),  # a rise below delta counts nothing
        ([0.4, 0.44, 0.48, 0.47], 0.05, Verdict.CONTINUE),  # small rises add up
        ([float("nan")] * 3, 0.0, Verdict.STOP),
    ],
)
def test_plateau(curve: list[float], delta: float, verdict: Verdict) -> None:
    assert Plateau(epochs=9, patience=3, delta=delta).judge(_trial(curve), []) is verdict
