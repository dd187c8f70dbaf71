"""The late-bloomer audit, on curves where the answer is known."""

from dataclasses import replace

import pytest

from detol.errors import UsageError
from detol.results.audit import audit
from detol.search.records import INHERITED, Candidate, Origin, Report, State, Trial
from detol.search.rehearse import NOBODY
from detol.stopping.asha import Asha
from detol.stopping.never import Never
from detol.stopping.promotion import PromotingAsha

EPOCHS = 9


def trial(number: int, curve: list[float], state: State = State.COMPLETED, candidate: Candidate = NOBODY) -> Trial:
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, candidate, state, EPOCHS, reports=reports, curve=tuple(curve), scores=(curve[-1],))


def flat(number: int, level: float) -> Trial:
    return trial(number, [level] * EPOCHS)


LATE = trial(11, [0.0] * 8 + [1.0])
SEARCH = [*(flat(number, number / 100) for number in range(11)), LATE]


def test_a_late_bloomer_is_found() -> None:
    """The winner is last after each rung: any halving ends it, in whatever order, and loses 1.0 - 0.1."""
    found = audit(SEARCH, PromotingAsha(epochs=EPOCHS), spared=lambda t: t.number in (3, 11), finish=0)
    assert (found.winner, found.lost, found.lost_as_it_was) == (11, 1.0, True)
    assert (found.spared, found.against, found.late) == (2, 2, (11,))
    assert found.late_chance == 0.5
    assert found.late_chance_95 == pytest.approx(0.9747, abs=1e-4)  # 1 of 2: the upper bound solves (1-p)**2 = 0.05...
    assert found.regret_max == pytest.approx(0.9, abs=0.11)
    assert found.epochs_full == 12 * EPOCHS == found.epochs_spent
    assert found.epochs_replayed < 40


def test_a_rule_that_ends_nothing_costs_and_saves_nothing() -> None:
    found = audit(SEARCH, Never(), spared=lambda _: True)
    assert (found.lost, found.regret, found.against, found.late) == (0.0, 0.0, 0, ())
    assert (found.late_chance, found.late_chance_95) == (None, None)
    assert found.epochs_replayed == 12 * EPOCHS


def test_early_winners_are_kept() -> None:
    found = audit([flat(number, number / 100) for number in range(12)], Asha(epochs=EPOCHS, grace=1))
    assert (found.winner, found.lost, found.regret) == (11, 0.0, 0.0)


def test_curves_that_ended_early_end_there_in_a_replay() -> None:
    short = [trial(number, [number / 100], State.STOPPED) for number in range(10)]
    found = audit([*short, flat(10, 0.5)], Never())
    assert (found.trials, found.complete) == (11, 1)
    assert found.epochs_replayed == found.epochs_spent == 10 + EPOCHS
    assert found.epochs_full == 11 * EPOCHS


def test_references_are_not_asked_about_and_not_spared() -> None:
    named = Candidate(NOBODY.decisions, NOBODY.topology, Origin.REFERENCE, note="small")
    found = audit(
        [trial(0, [0.0] * EPOCHS, candidate=named), *SEARCH[1:]], Asha(epochs=EPOCHS), spared=lambda t: t.number < 2
    )
    assert found.spared == 1


def test_the_winner_is_the_one_that_the_search_reports() -> None:
    """Where the best score was inherited, that is the best from scratch; a rule was asked about what it comes from."""
    child = replace(flat(12, 0.9), extra={INHERITED: "5"})
    again = Candidate(NOBODY.decisions, NOBODY.topology, Origin.RETRAIN, (12,), "trial 12 from scratch")
    for level, winner, judged in ((0.8, 13, 12), (0.05, 10, 10)):
        trials = [*SEARCH[:11], child, trial(13, [level] * EPOCHS, candidate=again)]
        found = audit(trials, Never())
        assert (found.winner, found.judged, found.trials) == (winner, judged, 12)
        assert (found.lost, found.regret, found.regret_max) == (0.0, 0.0, 0.0)
        whose = "trial 13, which is trial 12 from scratch" if winner == 13 else "trial 10"
        assert found.lines()[1].startswith(f"winner: {whose}; the rule would not have ended")


def test_what_failed_or_was_refused_is_left_out() -> None:
    refused = Trial(12, NOBODY, State.REFUSED, EPOCHS)
    diverged = trial(13, [0.5, float("nan")], State.DIVERGED)
    found = audit([*SEARCH, refused, diverged], Asha(epochs=EPOCHS))
    assert found.trials == 13
    assert found.winner == 11


def test_nothing_completed_is_one_line() -> None:
    with pytest.raises(UsageError, match="an audit needs a trial that completed") as error:
        audit([trial(0, [0.1], State.STOPPED)], Never())
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="--orders must be at least 1, got 0"):
        audit(SEARCH, Never(), orders=0)


def test_it_is_said_in_lines() -> None:
    lines = audit(SEARCH, PromotingAsha(epochs=EPOCHS), spared=lambda t: t.number == 11, finish=0).lines()
    assert "the rule would have ended it early" in lines[1]
    assert "late bloomers that beat the rest: 11" in lines[3]
