"""``--ranks``: who gets a policy of widths, and what it knows."""

import pytest

from detol import prepare, widths
from detol.config import Settings
from detol.errors import UsageError
from detol.scaling.auto import Auto
from detol.scaling.machine import cache, write
from detol.scaling.presets import PRESETS
from detol.search.recipe import Recipe
from detol.spaces import catalogue
from detol.workers import devices
from detol.workers.data import read


@pytest.fixture(scope="module")
def digits():
    return read("digits")


@pytest.fixture(autouse=True)
def _no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def policy(digits, workers=4, recipe=None, **settings):
    made = Settings(data="digits", device="cpu", **{"ranks": "auto", **settings})
    return widths.widths(made, digits, recipe or Recipe(), catalogue.load("tiny"), workers)


def test_only_auto_with_several_workers_has_a_policy(digits):
    assert isinstance(policy(digits), Auto)
    assert policy(digits, ranks="2") is None
    assert policy(digits, workers=1) is None
    assert policy(digits, executor="inline") is None


def test_it_knows_this_machine_if_it_was_calibrated(digits):
    assert policy(digits)._forecast.machine.name == "guess-cpu"
    write(PRESETS["fdr-titanx"], cache("cpu", 4))
    assert policy(digits)._forecast.machine.name == "fdr-titanx"
    assert policy(digits, workers=3)._forecast.machine.name == "guess-cpu"
    assert policy(digits, ray="auto")._forecast.machine.name == "guess-cpu"  # this machine is not the cluster


def test_all_workers_compute_whatever_the_widths(digits):
    machine = policy(digits)._forecast.machine
    assert machine.slowdown(1) == machine.slowdown(4) > 1


def test_ranks_that_share_a_gpu_gain_nothing(digits, monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: 2)
    found = widths.widths(
        Settings(data="digits", device="cuda", ranks="auto"), digits, Recipe(), catalogue.load("tiny"), 8
    )
    assert found._forecast.most == 2
    assert policy(digits, workers=8)._forecast.most == 8
    assert policy(digits, workers=8, recipe=Recipe(batch_size=6))._forecast.most == 3


def test_the_prior_is_drawn_from_the_space(digits):
    prior = policy(digits)._prior
    assert len(prior) == widths.PRIOR
    assert all(trial.candidate.topology in catalogue.load("tiny") for trial in prior[:3])
    assert [trial.digest for trial in prior] == [trial.digest for trial in policy(digits)._prior]


@pytest.mark.parametrize(
    ("settings", "gpus", "message"),
    [
        ({"ranks": "4", "workers": 2}, 0, "at most the number of workers, got 4 of 2"),
        ({"ranks": "2", "workers": 2, "executor": "inline"}, 0, "inline trains on one rank"),
        ({"ranks": "4", "workers": 4, "device": "cuda"}, 2, "at most the number of GPUs, got 4 of 2"),
    ],
)
def test_more_ranks_than_there_are_is_one_line(settings, gpus, message, monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: gpus)
    with pytest.raises(UsageError, match=message) as error:
        prepare._workers(Settings(data="digits", **settings))
    assert "\n" not in str(error.value)


def test_a_search_has_one_rank_a_trial_unless_asked(digits):
    assert Settings(data="digits").width == 1
    assert policy(digits, ranks=Settings().ranks) is None


def test_widths_that_are_chosen_make_another_search():
    assert Settings(ranks="auto").identity() != Settings().identity()


def test_a_wrong_word_for_the_steps_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setenv("DETOL_STEP", "grph")
    with pytest.raises(UsageError, match="DETOL_STEP 'grph'"):
        prepare._workers(Settings(data="digits", workers=2))


def test_a_limit_of_steps_that_is_none_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.setenv("DETOL_STEP_LIMIT", "soon")
    with pytest.raises(UsageError, match="DETOL_STEP_LIMIT must be a number of seconds > 0, got 'soon'"):
        prepare._workers(Settings(data="digits", workers=2))


def test_each_rank_has_two_training_samples():
    six = {"data": {"limit": 10, "validation": 0.4}}
    made = prepare.prepare(
        Settings(data="iris", space="tiny", ranks="3", workers=4, tracking="off", device="cpu", options=six)
    )
    assert (len(made.dataset.train), made.task.width) == (6, 3)
    with pytest.raises(UsageError, match="2 for each rank, got 4 for 6: --ranks 3"):
        prepare._check_ranks(4, 6)
    with pytest.raises(UsageError, match="got 1 for 1: bring more samples"):
        prepare._check_ranks(1, 1)
