"""The contract of a stopping rule, and of one that pauses, run over every implementation.

To hold a rule of your own to it, add it to ``STOPPERS``: a callable (*, epochs) -> stopper.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.contest import to_come
from detol.search.protocols import Pauser, Stopper
from detol.search.records import Candidate, Origin, Report, State, Trial, Verdict
from detol.spaces.decisions import Decisions
from detol.stopping.asha import Asha
from detol.stopping.audited import Audited, AuditedPauser
from detol.stopping.curve import CurveStop
from detol.stopping.hyperband import Hyperband
from detol.stopping.joined import Joined, JoinedStop
from detol.stopping.median import MedianStop
from detol.stopping.never import Never
from detol.stopping.pasha import Pasha
from detol.stopping.plateau import Plateau
from detol.stopping.promotion import PromotingAsha

Make = Callable[..., Stopper]
STOPPERS: dict[str, Make] = {
    "none": lambda *, epochs: Never(),
    "median": MedianStop,
    "plateau": Plateau,
    "asha": Asha,
    "asha_eager": partial(Asha, eta=2, grace=1),
    "promote": PromotingAsha,
    "promote_eager": partial(PromotingAsha, eta=2),
    "hyperband": Hyperband,
    "pasha": Pasha,
    "curve": CurveStop,
    "promote+curve": lambda *, epochs: Joined(PromotingAsha(epochs=epochs), CurveStop(epochs=epochs)),
    "promote+plateau": lambda *, epochs: Joined(PromotingAsha(epochs=epochs), Plateau(epochs=epochs)),
    "plateau+median": lambda *, epochs: JoinedStop(Plateau(epochs=epochs), MedianStop()),
    "audited": lambda *, epochs: Audited(Asha(epochs=epochs)),
    "audited promote": lambda *, epochs: AuditedPauser(PromotingAsha(epochs=epochs), trials=30),
}
PAUSERS = [name for name, make in STOPPERS.items() if isinstance(make(epochs=9), Pauser)]
NAN = float("nan")
CANDIDATE = Candidate(Decisions(a=1), chain(op("identity")), Origin.SAMPLE)
EPOCHS = 9


def trial(number: int, curve: Sequence[float], state: State = State.RUNNING, epochs: int = EPOCHS) -> Trial:
    reports = tuple(Report(epoch, {"val_accuracy": value}) for epoch, value in enumerate(curve, start=1))
    return Trial(number, CANDIDATE, state, epochs, reports=reports, curve=tuple(curve))


def crowd(seed: int, count: int = 30) -> list[Trial]:
    rng = np.random.default_rng(seed)
    states = [State.COMPLETED, State.STOPPED, State.RUNNING, State.DIVERGED, State.LOST, State.COMPLETED, State.PAUSED]
    found = []
    for number in range(count):
        state = states[number % len(states)]
        length = EPOCHS if state is State.COMPLETED else int(rng.integers(0, EPOCHS))
        curve = rng.random(length)
        curve[rng.random(length) < 0.1] = NAN
        found.append(trial(number, curve.tolist(), state))
    return found


@pytest.fixture(params=list(STOPPERS))
def stopper(request: pytest.FixtureRequest) -> Stopper:
    return STOPPERS[request.param](epochs=EPOCHS)


def test_is_a_stopper(stopper: Stopper) -> None:
    assert isinstance(stopper, Stopper)


def test_no_peers_and_no_reports(stopper: Stopper) -> None:
    assert stopper.judge(trial(0, []), []) is Verdict.CONTINUE
    assert stopper.judge(trial(0, [0.5]), []) is not Verdict.STOP
    assert stopper.judge(trial(0, []), crowd(0)) is Verdict.CONTINUE


def test_is_pure(stopper: Stopper) -> None:
    """The same question has the same answer, whatever was asked between; nothing given is changed."""
    peers = crowd(1)
    questions = [trial(99, curve.tolist()) for curve in np.random.default_rng(2).random((20, 4))]
    before = pickle.dumps(stopper)
    first = [stopper.judge(question, peers) for question in questions]
    second = [stopper.judge(question, peers) for question in reversed(questions)]
    assert first == second[::-1]
    assert [repr(peer) for peer in peers] == [repr(peer) for peer in crowd(1)]
    assert pickle.dumps(stopper) == before


@pytest.mark.parametrize("seed", range(4))
def test_order_of_peers_does_not_matter_and_any_iterable_will_do(stopper: Stopper, seed: int) -> None:
    peers = crowd(seed, 40)
    shuffled = list(peers)
    np.random.default_rng(seed).shuffle(shuffled)
    for curve in np.random.default_rng(seed + 10).random((10, 6)):
        for length in range(1, 7):
            asked = trial(99, curve[:length].tolist())
            answers = {stopper.judge(asked, given) for given in (peers, shuffled, iter(peers), tuple(peers))}
            assert len(answers) == 1


def test_best_of_all_goes_on(stopper: Stopper) -> None:
    rising = [2 + epoch / 10 for epoch in range(EPOCHS)]
    for epochs in range(1, EPOCHS + 1):
        assert stopper.judge(trial(99, rising[:epochs]), crowd(3)) is not Verdict.STOP


def test_nothing_is_stopped_after_its_last_epoch(stopper: Stopper) -> None:
    assert stopper.judge(trial(99, [-1.0] * EPOCHS), crowd(3)) is Verdict.CONTINUE
    assert stopper.judge(trial(99, [NAN] * EPOCHS), crowd(3)) is Verdict.CONTINUE


@pytest.mark.parametrize("name", [name for name in STOPPERS if name != "none"])
def test_nan_does_not_win(name: str) -> None:
    """A curve of NaN is stopped sooner or later; NaN among the peers neither raises nor lifts the bar."""
    stopper = STOPPERS[name](epochs=EPOCHS)
    good = [
        trial(number, [0.1 * epoch + 0.01 * number for epoch in range(EPOCHS)], State.COMPLETED) for number in range(10)
    ]
    verdicts = [stopper.judge(trial(99, [NAN] * length), good) for length in range(1, EPOCHS)]
    assert Verdict.STOP in verdicts
    broken = [trial(number, [NAN] * EPOCHS, State.COMPLETED) for number in range(10)]
    rising = [0.1 * epoch for epoch in range(EPOCHS)]
    for length in range(1, EPOCHS):
        assert stopper.judge(trial(99, rising[:length]), broken) is not Verdict.STOP


@pytest.mark.parametrize("epochs", [1, 2, 3, 100])
@pytest.mark.parametrize("name", list(STOPPERS))
def test_defaults_fit_any_number_of_epochs(name: str, epochs: int) -> None:
    stopper = STOPPERS[name](epochs=epochs)
    for length in range(1, epochs + 1):
        curve = [epoch / epochs for epoch in range(1, length + 1)]
        assert stopper.judge(trial(1, curve, epochs=epochs), []) is not Verdict.STOP


@pytest.mark.parametrize("name", list(STOPPERS))
def test_many_peers(name: str) -> None:
    """10,000 peers are judged against in time linear in their number: 200 questions take seconds, not minutes."""
    stopper = STOPPERS[name](epochs=EPOCHS)
    peers = [trial(number, [number / 10_000] * EPOCHS, State.COMPLETED) for number in range(10_000)]
    for length in (1, 2, 3):
        assert stopper.judge(trial(10_000, [2.0, 2.1, 2.2][:length]), peers) is not Verdict.STOP


# -- of those that pause ---------------------------------------------------------------------------------------------


@pytest.fixture(params=PAUSERS)
def pauser(request: pytest.FixtureRequest) -> Pauser:
    made = STOPPERS[request.param](epochs=EPOCHS)
    assert isinstance(made, Pauser)
    return made


def test_others_do_not_pause() -> None:
    assert {"none", "median", "plateau", "asha", "audited", "plateau+median"}.isdisjoint(PAUSERS)
    for name in set(STOPPERS) - set(PAUSERS):
        stopper = STOPPERS[name](epochs=EPOCHS)
        for length in range(1, EPOCHS + 1):
            assert stopper.judge(trial(99, [0.1] * length), crowd(4)) is not Verdict.PAUSE


def test_a_milestone_lies_ahead_and_a_trial_rests_there_alone(pauser: Pauser) -> None:
    """In (trial.epoch, trial.epochs]; the same for one that is new, runs or rests."""
    for number in range(40):
        for length in range(EPOCHS):
            asked = trial(number, [0.5 - length / 100] * length)
            milestone = pauser.milestone(asked)
            assert length < milestone <= EPOCHS
            assert milestone == pauser.milestone(replace(asked, state=State.PAUSED))
            assert milestone == pauser.milestone(to_come(asked, length))
            if length:
                before = trial(number, [0.5] * (length - 1))
                at_milestone = pauser.milestone(before) == length
                assert pauser.judge(asked, []) is not Verdict.PAUSE or at_milestone


@pytest.mark.parametrize("seed", range(4))
def test_promotes_one_of_those_that_rest_and_is_pure(pauser: Pauser, seed: int) -> None:
    trials = crowd(seed, 60)
    paused = [each for each in trials if each.state is State.PAUSED and each.reports]
    others = [each for each in trials if each.state is not State.PAUSED]
    before = [repr(each) for each in trials]
    chosen = pauser.promote(paused, others)
    assert chosen is None or chosen in {each.number for each in paused}
    assert pauser.promote(paused[::-1], iter(others[::-1])) == chosen
    assert [repr(each) for each in trials] == before
    assert pauser.promote([], trials) is None
