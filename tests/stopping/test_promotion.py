"""Promotion, Hyperband and PASHA by hand-made curves, and over made-up searches."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol.errors import UsageError
from detol.search.records import CONTENDS, Objective, Report, State, Trial, Verdict
from detol.search.rehearse import NOBODY, rehearse
from detol.search.spared import KNOWN
from detol.stopping.asha import Asha
from detol.stopping.hyperband import Hyperband
from detol.stopping.joined import Joined
from detol.stopping.median import MedianStop
from detol.stopping.never import Never
from detol.stopping.pasha import Pasha, noise
from detol.stopping.promotion import PromotingAsha

EPOCHS = 9
NAN = math.nan


def trial(number: int, curve: Sequence[float], state: State = State.PAUSED, epochs: int = EPOCHS) -> Trial:
    reports = tuple(Report(epoch, {}) for epoch in range(1, len(curve) + 1))
    return Trial(number, NOBODY, state, epochs, reports=reports, curve=tuple(curve))


def test_the_best_third_is_promoted_and_the_highest_rung_first() -> None:
    rule = PromotingAsha(epochs=EPOCHS)
    assert rule.rungs == (1, 3)
    low = [trial(number, [value]) for number, value in enumerate([0.1, 0.5, 0.3, 0.2, 0.4, 0.0])]
    assert rule.promote(low, []) == 1
    assert rule.promote(low[:2], []) is None  # a third of two is nobody
    promoted = [replace(low[1], state=State.RUNNING)]
    rest = [each for each in low if each.number != 1]
    assert rule.promote(rest, promoted) == 4  # of six two may go on: 1 has, 4 does
    high = [trial(number, [0.9, 0.9, value]) for number, value in zip((6, 7, 8), (0.7, 0.8, 0.6), strict=True)]
    assert rule.promote([*low, *high], []) == 7


def test_one_that_was_promoted_keeps_its_place_among_the_best() -> None:
    """Li et al., algorithm 2: the top third less those already promoted; not the top third of those that rest."""
    rule = PromotingAsha(epochs=EPOCHS)
    gone = [trial(0, [0.9, 0.9, 0.9], State.RUNNING), trial(1, [0.8, 0.1, 0.0], State.STOPPED)]
    rest = [trial(number, [0.1]) for number in range(2, 6)]
    assert rule.promote(rest, gone) is None


@pytest.mark.parametrize(("epoch", "milestone"), [(0, 1), (1, 3), (2, 3), (3, 9), (5, 9), (8, 9)])
def test_rungs_are_absolute_epochs(epoch: int, milestone: int) -> None:
    """A trial that stands at 5 epochs after a resume rests at the next rung above, not 3 epochs later (warprec#126)."""
    assert PromotingAsha(epochs=27).milestone(trial(0, [0.1] * epoch, epochs=27)) == (9 if epoch >= 3 else milestone)
    assert PromotingAsha(epochs=EPOCHS).milestone(trial(0, [0.1] * epoch)) == milestone


def test_a_resumed_search_promotes_as_the_uninterrupted_one_would() -> None:
    """All that counts is in the trials: a new object, told nothing else, gives the same answers."""
    curves = [trial(number, values) for number, values in enumerate(np.random.default_rng(0).random((12, 3)))]
    for length in range(1, 13):
        assert PromotingAsha(epochs=EPOCHS).promote(curves[:length], []) == PromotingAsha(epochs=EPOCHS).promote(
            curves[:length], []
        )


@pytest.mark.parametrize("kind", [PromotingAsha, Pasha, Hyperband])
def test_nan_is_stopped_at_a_rung_and_never_promoted(kind: type[PromotingAsha | Pasha | Hyperband]) -> None:
    rule = kind(epochs=EPOCHS)
    assert rule.judge(trial(0, [NAN], State.RUNNING), []) is Verdict.STOP
    assert rule.promote([trial(number, [NAN]) for number in range(9)], []) is None
    mixed = [trial(number, [NAN if number else 0.1]) for number in range(40)]
    assert rule.promote(mixed, []) in (0, None)
    assert PromotingAsha(epochs=EPOCHS).promote(mixed[:3], []) == 0  # NaN has reached the rung: it ranks last


def test_a_trial_that_would_be_promoted_at_once_does_not_rest() -> None:
    rule = PromotingAsha(epochs=EPOCHS)
    peers = [trial(0, [0.1]), trial(1, [0.2])]
    assert rule.judge(trial(2, [0.3], State.RUNNING), peers) is Verdict.CONTINUE
    assert rule.judge(trial(2, [0.15], State.RUNNING), peers) is Verdict.PAUSE
    assert rule.judge(trial(2, [0.3, 0.1], State.RUNNING), peers) is Verdict.CONTINUE  # between two rungs


def test_nobody_is_promoted_from_the_maximum() -> None:
    rule = PromotingAsha(epochs=EPOCHS, maximum=3)
    assert rule.rungs == (1, 3)
    assert rule.promote([trial(number, [0.1, 0.2, 0.3 + number]) for number in range(9)], []) is None
    assert rule.judge(trial(9, [0.1, 0.2, 99.0], State.RUNNING), []) is Verdict.PAUSE
    assert rule.milestone(trial(9, [0.1, 0.2, 99.0])) == EPOCHS


def test_rungs_may_be_given() -> None:
    rule = PromotingAsha(epochs=50, rungs=[1, 4, 10])
    assert rule.rungs == (1, 4, 10)
    assert rule.milestone(trial(0, [0.1] * 4, epochs=50)) == 10


def flat(count: int, epochs: int, seed: int = 0, noise: float = 0.0) -> list[Trial]:
    rng = np.random.default_rng(seed)
    ends = rng.random(count)
    curves = ends[:, None] - 1 / np.arange(1, epochs + 1) + rng.normal(0, noise or 1e-12, (count, epochs))
    return [trial(number, curve.tolist(), State.COMPLETED, epochs) for number, curve in enumerate(curves)]


def test_epochs_of_promotion_are_those_of_the_paper() -> None:
    """Without rank changes each rung sees at most a third of the one below, plus those promoted too early."""
    done = rehearse(flat(81, 27), PromotingAsha(epochs=27), finish=0)
    reached = [sum(each.epoch >= rung for each in done.trials) for rung in (1, 3, 9, 27)]
    assert reached[0] == 81
    assert all(second <= first * 0.6 for first, second in itertools.pairwise(reached))
    assert done.best == max(range(81), key=lambda number: done.trials[number].curve[0])


def going_on(rule: PromotingAsha, trials: Sequence[Trial], others: Sequence[Trial] = ()) -> list[int]:
    """Return who would go on from the first rung, one after the other; the others do not rest."""
    found: list[int] = []
    while (number := rule.promote([t for t in trials if t.number not in found], [
        *others, *(replace(t, state=State.RUNNING) for t in trials if t.number in found)
    ])) is not None:  # fmt: skip
        found.append(number)
    return found


def test_no_more_than_the_quota_have_gone_on_until_no_more_come() -> None:
    """Of 12 that came 4 may go on, and two have: the best of the others takes its turn, not all that are better."""
    low, late = [0.1, 0.3, 0.4, 0.2, 0.1, 0.2], [0.5, 0.6, 0.7, 0.8, 0.9, 0.55]
    trials = [trial(number, [value]) for number, value in enumerate([*low, *late])]
    assert going_on(PromotingAsha(epochs=EPOCHS), trials) == [10, 9, 8, 7]
    gone = [replace(each, state=State.RUNNING) for each in trials if each.number in (1, 2)]
    rest = [each for each in trials if each.number not in (1, 2)]
    assert going_on(PromotingAsha(epochs=EPOCHS), rest, gone) == [10, 9]
    assert going_on(PromotingAsha(epochs=EPOCHS, trials=13), rest, gone) == [10, 9]
    for rule in (PromotingAsha(epochs=EPOCHS, trials=12), PromotingAsha(epochs=EPOCHS, quota=False)):
        assert going_on(rule, rest, gone) == [10, 9, 8, 7]
    stopped = [replace(gone[0], state=State.STOPPED), gone[1]]  # at the rung: it has taken nobody's place
    assert going_on(PromotingAsha(epochs=EPOCHS), rest, stopped) == [10, 9, 8]
    # Near the end of its time a search passes those over that could not come to their end: they have not gone on.
    assert PromotingAsha(epochs=EPOCHS).promote(trials[10:], trials[:10]) == 10
    refused = [trial(number, [], State.REFUSED) for number in range(12, 20)]
    full = [*gone, *(replace(each, state=State.RUNNING) for each in trials[9:11]), *refused]
    assert PromotingAsha(epochs=EPOCHS, trials=13).promote(trials[3:9], full) is None  # 12 of 13 are there


def test_results_that_were_there_take_nobodys_place() -> None:
    """Nine of eighteen were answered, came with epochs of an earlier search, or contend as references: nine compete."""
    new = [trial(number, [0.5 + number / 100]) for number in range(9, 18)]
    answered = [replace(trial(number, [0.1] * EPOCHS, State.COMPLETED), reused="before/1") for number in range(9)]
    begun = [replace(trial(number, [0.1] * 3, State.RUNNING), extra={KNOWN: 3}) for number in range(9)]
    contending = [replace(trial(number, [0.1] * 3, State.RUNNING), extra={CONTENDS: 1}) for number in range(9)]
    for others in (answered, begun, contending):
        assert going_on(PromotingAsha(epochs=EPOCHS), new, others) == [17, 16, 15]
        assert going_on(PromotingAsha(epochs=EPOCHS, quota=False), new, others) == [17, 16, 15, 14, 13, 12]


def test_one_that_another_rule_would_stop_rests_and_has_not_gone_on() -> None:
    class Hopeless(Never):
        def judge(self, trial: Trial, peers: Iterable[Trial]) -> Verdict:
            return Verdict.STOP if trial.number == 11 else Verdict.CONTINUE

    gone = [trial(number, [0.1], State.RUNNING) for number in range(3)]
    rest = [trial(number, [number / 20]) for number in range(3, 12)]
    assert Joined(PromotingAsha(epochs=EPOCHS), Never()).promote(rest, gone) == 11
    assert Joined(PromotingAsha(epochs=EPOCHS), Hopeless()).promote(rest, gone) == 10


def test_a_strategy_that_found_a_better_region_does_not_promote_nearly_all_it_proposes_there() -> None:
    share: dict[bool, list[int]] = {False: [], True: []}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        ends = [*rng.uniform(0.0, 0.5, 20), *rng.uniform(0.5, 1.0, 40)]
        curves = [trial(number, [end] * EPOCHS, State.COMPLETED) for number, end in enumerate(ends)]
        for quota, passed in share.items():
            done = rehearse(curves, PromotingAsha(epochs=EPOCHS, quota=quota, trials=60), finish=0)
            passed.append(sum(each.epoch > 1 for each in done.trials))
            assert done.best == int(np.argmax(ends))  # the best of all is the best of any of them
        done = rehearse(curves, PromotingAsha(epochs=EPOCHS), finish=0)  # nobody knows that 60 are all
        assert sum(each.epoch > 1 for each in done.trials) == 60 // 3
    assert all(some <= more for some, more in zip(share[True], share[False], strict=True))
    assert np.mean(share[True]) < 0.85 * np.mean(share[False])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(2, 4))
@settings(max_examples=40, deadline=None)
def test_each_rung_keeps_its_quota_in_any_order(ends: list[float], eta: int) -> None:
    curves = [trial(number, [end] * EPOCHS, State.COMPLETED) for number, end in enumerate(ends)]
    rule = PromotingAsha(epochs=EPOCHS, eta=eta)
    done = rehearse(curves, rule, finish=0)
    for rung in rule.rungs:
        came = sum(each.epoch >= rung for each in done.trials)
        assert sum(each.epoch > rung for each in done.trials) <= came // eta


@pytest.mark.parametrize("quota", [0, 0.5, "half", None])
def test_a_quota_is_true_or_false(quota: object) -> None:
    with pytest.raises(UsageError, match="quota is true or false"):
        PromotingAsha(epochs=EPOCHS, quota=quota)  # type: ignore[arg-type]


# -- Hyperband -------------------------------------------------------------------------------------------------------


def test_brackets_of_hyperband() -> None:
    """Li et al. 2018, table 1: R = 81, eta = 3: first rungs at 1, 3, 9, 27, 81, and 81 : 34 : 15 : 8 : 5 trials."""
    rule = Hyperband(epochs=81)
    assert [bracket.rungs for bracket in rule.brackets] == [(1, 3, 9, 27), (3, 9, 27), (9, 27), (27,), ()]
    assert [round(share * 143) for share in rule.shares] == pytest.approx([81, 34, 15, 8, 5], abs=1)


def test_shares_are_kept_and_depend_on_the_number_alone() -> None:
    rule = Hyperband(epochs=81)
    for start in (0, 1000):
        counts = np.bincount([rule.bracket(trial(start + number, [])) for number in range(1000)], minlength=5) / 1000
        assert counts == pytest.approx(rule.shares, abs=0.01)


def test_brackets_do_not_compete() -> None:
    rule = Hyperband(epochs=EPOCHS, brackets=2)
    first = [number for number in range(200) if rule.bracket(trial(number, [])) == 0]
    second = [number for number in range(200) if rule.bracket(trial(number, [])) == 1]
    low = [trial(number, [0.1 + number / 1e4]) for number in first[:3]]
    high = [trial(number, [0.9, 0.9, 0.9 + number / 1e4], State.COMPLETED) for number in second[:3]]
    assert rule.promote(low, high) == first[2]
    assert rule.milestone(trial(second[0], [])) == 3


# -- PASHA -----------------------------------------------------------------------------------------------------------


def test_pasha_does_not_grow_while_rankings_agree() -> None:
    done = rehearse(flat(60, 81), Pasha(epochs=81), finish=0)
    assert max(each.epoch for each in done.trials) == 3


def test_pasha_grows_while_they_do_not() -> None:
    rng = np.random.default_rng(1)
    curves = [trial(number, rng.random(81).tolist(), State.COMPLETED, 81) for number in range(200)]
    assert max(each.epoch for each in rehearse(curves, Pasha(epochs=81, epsilon=0.0), finish=0).trials) >= 27


def test_pasha_takes_close_scores_as_equal() -> None:
    low, high = [0.5, 0.5, 0.50], [0.501, 0.5, 0.49]
    trials = [trial(0, low), trial(1, high)]
    assert Pasha(epochs=81, epsilon=0.01).top(trials) == 1
    assert Pasha(epochs=81, epsilon=0.0001).top(trials) == 2


def test_noise_is_read_off_curves_that_cross_twice() -> None:
    """Bohdal et al. 2023, section 4.2: the 90th percentile of one distance is that distance."""
    up, down = trial(0, [0.5, 0.5, 0.5]), trial(1, [0.6, 0.4, 0.53])
    assert noise([up, down], 3) == pytest.approx(0.03)
    assert noise([up, trial(1, [0.6, 0.4, 0.3])], 3) == 0.0
    assert noise([up], 3) == 0.0


# -- several objectives ----------------------------------------------------------------------------------------------

TWO = (Objective("val_accuracy"), Objective("params", minimise=True))


def two(number: int, accuracy: float, params: float, state: State = State.PAUSED, epochs: int = 1) -> Trial:
    reports = tuple(Report(epoch, {"val_accuracy": accuracy}) for epoch in range(1, epochs + 1))
    return Trial(number, NOBODY, state, EPOCHS, reports=reports, curve=(accuracy,) * epochs, extra={"params": params})


def test_a_rung_ranks_by_fronts() -> None:
    """The small but weak network is on the front, and one that another beats in both is not."""
    rest = [two(0, 0.9, 100), two(1, 0.5, 1), two(2, 0.89, 200), two(3, 0.4, 50), two(4, 0.3, 60), two(5, 0.2, 70)]
    rule = PromotingAsha(epochs=EPOCHS, objectives=TWO)
    assert rule.top(rest, 1) == [0, 1]
    assert PromotingAsha(epochs=EPOCHS).top(rest, 1) == [0, 2]


def test_within_a_front_the_one_that_stands_apart_is_promoted() -> None:
    rest = [two(0, 0.9, 100), two(1, 0.1, 1), two(2, 0.5, 50), two(3, 0.51, 51), two(4, 0.52, 52), two(5, 0.53, 53)]
    assert PromotingAsha(epochs=EPOCHS, objectives=TWO).top(rest, 1) == [0, 1]


def test_stop_forms_rank_by_fronts_too() -> None:
    peers = [two(number, 0.5 + number / 100, 10 + number, State.COMPLETED, EPOCHS) for number in range(6)]
    small, dominated = two(9, 0.1, 1, State.RUNNING), two(9, 0.1, 99, State.RUNNING)
    for rule in (Asha(epochs=EPOCHS, grace=1, objectives=TWO), MedianStop(objectives=TWO)):
        assert rule.judge(small, peers) is Verdict.CONTINUE
        assert rule.judge(dominated, peers) is Verdict.STOP
    assert Asha(epochs=EPOCHS, grace=1).judge(small, peers) is Verdict.STOP  # one objective: it is the worst


def test_pasha_with_two_objectives_takes_a_front_as_equal() -> None:
    rule = Pasha(epochs=81, objectives=TWO)
    assert rule.top([two(number, number / 10, 10 + number, epochs=3) for number in range(6)]) == 1


# -- properties ------------------------------------------------------------------------------------------------------

scores = st.one_of(st.sampled_from([0.1, 0.5]), st.floats(0, 1), st.just(NAN))
searches = st.lists(st.lists(scores, min_size=EPOCHS, max_size=EPOCHS), min_size=1, max_size=20)
RULES = {
    "promote": PromotingAsha(epochs=EPOCHS),
    "eager": PromotingAsha(epochs=EPOCHS, eta=2, rungs=[2, 5]),
    "hyperband": Hyperband(epochs=EPOCHS),
    "pasha": Pasha(epochs=EPOCHS),
}


@pytest.mark.parametrize("name", list(RULES))
@given(searches, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_a_search_ends_and_no_rung_passes_too_many(name: str, curves: list[list[float]], workers: int) -> None:
    """Whatever the curves: every trial starts, none hangs in RUNNING, and at most 1 / eta pass a rung."""
    known = [trial(number, curve, State.COMPLETED) for number, curve in enumerate(curves)]
    done = rehearse(known, RULES[name], workers=workers, finish=0)
    assert len(done.trials) == len(known)
    assert all(each.state is not State.RUNNING and each.epoch >= 1 for each in done.trials)
    if name in ("promote", "eager"):
        rule = RULES[name]
        for rung in rule.rungs:
            there = sum(each.epoch >= rung for each in done.trials)
            passed = [each for each in done.trials if each.epoch > rung]
            assert all(math.isfinite(each.curve[rung - 1]) for each in passed)
            assert len(passed) <= there  # promoted early, some may since have been overtaken
            assert done.epochs == sum(each.epoch for each in done.trials)
