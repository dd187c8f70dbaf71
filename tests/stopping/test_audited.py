"""The share of trials that a rule does not end, and the rules' names on the command line."""

from dataclasses import replace

import pytest

from detol import wire
from detol.errors import UsageError
from detol.search.protocols import Pauser
from detol.search.records import Report, State, Trial, Verdict
from detol.search.rehearse import NOBODY
from detol.stopping.asha import Asha
from detol.stopping.audited import MARK, Audited, AuditedPauser, audited
from detol.stopping.curve import CurveStop
from detol.stopping.hyperband import Hyperband
from detol.stopping.joined import Joined, joined
from detol.stopping.pasha import Pasha
from detol.stopping.promotion import PromotingAsha


def trial(number: int, curve: list[float], state: State = State.RUNNING) -> Trial:
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, NOBODY, state, 9, reports=reports, curve=tuple(curve))


@pytest.mark.parametrize(
    ("share", "trials", "references", "spared"),
    [(0.05, 100, 0, 5), (0.05, 30, 0, 3), (0.05, 60, 0, 3), (0.05, 32, 2, 3), (0.2, 100, 0, 20), (1.0, 10, 0, 10)],
)
def test_the_share_is_kept_and_three_at_least(share: float, trials: int, references: int, spared: int) -> None:
    for seed in range(20):
        rule = Audited(Asha(epochs=9), share=share, trials=trials, seed=seed, references=references)
        numbers = [number for number in range(trials) if rule.spared(number)]
        assert len(numbers) == spared
        assert all(number >= references for number in numbers)


def test_which_ones_depends_on_number_and_seed_alone() -> None:
    first = Audited(Asha(epochs=9), trials=100, seed=1)
    again = AuditedPauser(PromotingAsha(epochs=9), trials=100, seed=1)
    other = Audited(Asha(epochs=9), trials=100, seed=2)
    spared = [[rule.spared(number) for number in range(100)] for rule in (first, again, other)]
    assert spared[0] == spared[1] != spared[2]


def test_a_spared_trial_runs_to_its_end_unless_it_is_not_finite() -> None:
    rule = audited(PromotingAsha(epochs=9), trials=9)
    assert isinstance(rule, AuditedPauser)
    number = next(number for number in range(9) if rule.spared(number))
    peers = [trial(10 + n, [0.9] * 9, State.COMPLETED) for n in range(9)]
    assert rule.milestone(trial(number, [])) == 9
    assert rule.judge(trial(number, [0.1]), peers) is Verdict.CONTINUE
    assert rule.judge(trial(number, [float("nan")]), peers) is Verdict.STOP
    other = next(number for number in range(9) if not rule.spared(number))
    assert rule.milestone(trial(other, [])) == 1
    assert rule.judge(trial(other, [0.1]), peers) is Verdict.PAUSE


def test_where_time_is_the_bound_a_spared_trial_halts_at_milestones_and_is_not_judged_there() -> None:
    rule = audited(PromotingAsha(epochs=9), trials=None)
    assert isinstance(rule, AuditedPauser)
    number = next(number for number in range(20) if rule.spared(number))
    peers = [trial(30 + n, [0.9] * 9, State.COMPLETED) for n in range(9)]
    assert [rule.milestone(trial(number, [0.1] * epoch)) for epoch in (0, 1, 2, 3)] == [1, 3, 3, 9]
    assert rule.judge(trial(number, [0.1]), peers) is Verdict.CONTINUE


def test_the_record_of_a_trial_goes_before_the_lot() -> None:
    """The lot of a search with other bounds falls on others, and what was begun is ended as it was begun."""
    rule = audited(PromotingAsha(epochs=9), trials=9)
    assert isinstance(rule, AuditedPauser)
    drawn = {number for number in range(9) if rule.spared(number)}
    assert {number for number in range(9) if rule.facts(trial(number, []))[MARK]} == drawn
    for number in range(9):
        other = replace(trial(number, []), extra={MARK: int(number not in drawn)})
        assert rule.spares(other) == (number not in drawn)
        assert rule.milestone(other) == (1 if number in drawn else 9)
        verdict = rule.judge(replace(trial(number, [0.1]), extra=other.extra), [])
        assert verdict is (Verdict.PAUSE if number in drawn else Verdict.CONTINUE)


def test_what_the_rule_itself_says_of_a_trial_is_on_record_too() -> None:
    class Says(PromotingAsha):
        def facts(self, trial: Trial) -> dict[str, int]:
            return {"mine": trial.number}

    rule = audited(Says(epochs=9), trials=9)
    assert isinstance(rule, AuditedPauser)
    assert rule.facts(trial(4, [])) == {"mine": 4, MARK: int(rule.spared(4))}


def test_no_share_no_wrapper() -> None:
    rule = Asha(epochs=9)
    assert audited(rule, share=0) is rule


# -- by name ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "pauses"),
    [
        ("promote", PromotingAsha, True),
        ("hyperband", Hyperband, True),
        ("pasha", Pasha, True),
        ("curve", CurveStop, False),
        ("promote+curve", Joined, True),
        ("curve+pasha", Joined, True),
    ],
)
def test_rules_by_name(name: str, kind: type, pauses: bool) -> None:
    rule = wire.stopper(name, epochs=9, options={"audit_share": 0})
    assert isinstance(rule, kind)
    assert isinstance(rule, Pauser) == pauses
    assert isinstance(wire.stopper(name, epochs=9), Audited)
    assert isinstance(wire.stopper(name, epochs=9), Pauser) == pauses


def test_the_number_of_trials_goes_to_the_rule_that_guesses() -> None:
    rule = wire.stopper("curve", epochs=9, trials=110, options={"audit_share": 0})
    assert isinstance(rule, CurveStop)
    assert rule.trials == 110
    rule = wire.stopper("promote", epochs=9, trials=110, options={"audit_share": 0})
    assert isinstance(rule, PromotingAsha)
    assert rule.trials == 110
    rule = wire.stopper("promote+curve", epochs=9, trials=110, options={"audit_share": 0, "quota": False})
    assert isinstance(rule, Joined)
    assert (rule.pauser.trials, rule.pauser.quota, rule.stoppers[0].trials) == (110, False, 110)


def test_options_go_to_the_rule_that_has_them() -> None:
    rule = wire.stopper("promote+curve", epochs=9, options={"eta": 2, "chance": 0.1, "audit_share": 0})
    assert isinstance(rule, Joined)
    assert (rule.pauser.eta, rule.stoppers[0].chance) == (2, 0.1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("promoted", {}, "unknown stopper 'promoted': did you mean promote"),
        ("promote+", {}, "unknown stopper ''"),
        ("promote+promote", {}, "each rule is named once, got 'promote\\+promote'"),
        ("promote+pasha", {}, "of rules that are joined one may pause, got PromotingAsha and Pasha"),
        ("promote", {"chance": 0.1}, "unknown option of promote 'chance'"),
        ("promote", {"objectives": 1}, "unknown option of promote 'objectives'"),
        ("promote", {"eta": 1}, "eta must be a whole number of at least 2, got 1"),
        ("promote", {"eta": "three"}, "eta must be a whole number of at least 2, got 'three'"),
        ("promote", {"grace": 10}, "grace must be at most the maximum of 9 epochs, got 10"),
        ("promote", {"grace": 5, "maximum": 3}, "grace must be at most the maximum of 3 epochs, got 5"),
        ("promote", {"maximum": 10}, "maximum must be at most the 9 epochs of a trial, got 10"),
        ("promote", {"rungs": [1, 3, 27]}, "a rung must be at most the maximum of 9 epochs, got 27"),
        ("promote", {"rungs": [3, 1]}, "rungs must rise, got \\[3, 1\\]"),
        ("promote", {"rungs": "1,3"}, "rungs is a list of epochs, e.g. \\[1,3,9\\], got '1,3'"),
        ("promote", {"rungs": [1], "grace": 1}, "give rungs or grace"),
        ("promote", {"rungs": [0]}, "a rung must be a whole number of at least 1, got 0"),
        ("hyperband", {"brackets": 0}, "brackets must be a whole number of at least 1, got 0"),
        ("hyperband", {"eta": 1}, "eta must be"),
        ("pasha", {"epsilon": -1}, "epsilon must be a finite number of at least 0, got -1"),
        ("pasha", {"epsilon": "small"}, "epsilon must be"),
        ("curve", {"chance": 0.7}, "chance must be a number in \\(0, 0.5\\], got 0.7"),
        ("curve", {"chance": "5%"}, "chance must be"),
        ("curve", {"warmup": 0}, "warmup must be"),
        ("asha", {"audit_share": 2}, "audit_share must be a number in \\[0, 1\\]"),
        ("asha", {"audit_share": "some"}, "audit_share must be"),
    ],
)
def test_bad_input_is_one_line(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        wire.stopper(name, epochs=9, options=options)
    assert "\n" not in str(error.value)


def test_joining_needs_no_pauser() -> None:
    rule = joined([Asha(epochs=9, grace=1), CurveStop(epochs=9)])
    assert not isinstance(rule, Pauser)
    assert rule.judge(trial(9, [0.1]), [trial(n, [0.9] * 9, State.COMPLETED) for n in range(9)]) is Verdict.STOP
