"""Progress against a controller that stands still and a clock that is set by hand."""

import math
from types import SimpleNamespace

import pytest

from detol.dashboards.progress import LINE_SECONDS, SearchProgress, clock
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.tally import Tally
from detol.spaces.decisions import Decisions


def trial(number: int, score: float | None = None, **changes) -> Trial:
    candidate = Candidate(Decisions(width=8), chain(op("conv", channels=8)), Origin.MUTATE)
    if score is None:
        return Trial(number, candidate, State.RUNNING, 20, **changes)
    reports = (Report(1, {"m": score}),)
    return Trial(number, candidate, State.COMPLETED, 1, reports=reports, curve=(score,), scores=(score,), **changes)


def search(
    done: int = 0, running: int = 0, *, trials: float = 30, seconds: float = math.inf, used: float = 0.0, **tally
):
    limits = SimpleNamespace(trials=trials, seconds=seconds)
    live = {done + n: trial(done + n) for n in range(running)}
    return SimpleNamespace(
        tally=Tally(trials=done, **tally), running=live, seconds=used, task=SimpleNamespace(limits=limits)
    )


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.4, "0:00"), (59.6, "1:00"), (65, "1:05"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_clock(seconds, text) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize("seconds", [0, 7, 61, 3599, 3661, 100_000])
def test_clock_reads_back(seconds) -> None:
    parts = clock(seconds).split(":")
    assert sum(int(part) * 60**place for place, part in enumerate(reversed(parts))) == seconds


def test_a_line_holds_counts_best_rate_and_time_left(screen, now) -> None:
    console = screen(width=40)  # a line outside a terminal is not broken
    progress = SearchProgress(console, Objective("val_mse", minimise=True), now)
    progress(search())
    console.take()
    now.seconds += 60
    progress(search(12, 2, reused=3, stopped=4, failed=1, refused=5, best=trial(7, -0.25)))
    assert console.take() == (
        "12/30 trials · 2 running · 3 reused · 4 stopped early · 1 failed · 5 refused · "
        "best val_mse 0.2500 (trial 7) · 12.0 trials/min · 1:30 left\n"
    )  # 12 trials in a minute: 18 more in a minute and a half


def test_a_best_score_that_was_inherited_is_marked(screen, now) -> None:
    progress = SearchProgress(screen(), Objective("m"), now)
    best = trial(7, 0.5, extra={"inherited_from": "3"})
    assert "best m 0.5000 (trial 7, weights of trial 3)" in progress.line(search(8, best=best, scratch=trial(2, 0.25)))


def test_outside_a_terminal_a_line_comes_at_most_every_ten_seconds(screen, now) -> None:
    console = screen()
    progress = SearchProgress(console, Objective("m"), now)
    assert LINE_SECONDS == 10
    printed = []
    for tenth in range(350):  # 35 seconds, ten turns a second
        now.seconds = 100 + tenth / 10
        progress(search(tenth // 100))
        if console.take():
            printed.append(tenth / 10)
    assert printed == [0, 10, 20, 30]
    progress.close()
    assert console.text == ""


def test_trials_that_rest_count_as_started(screen, now) -> None:
    console = screen()
    progress = SearchProgress(console, Objective("m"), now)
    progress(search())
    now.seconds += 60
    console.take()
    progress(search(3, 2, paused=7))
    assert console.take() == "10/30 trials · 2 running · 7 resting · 10.0 trials/min · 2:00 left\n"


def test_a_winner_that_is_retrained_is_none_of_the_trials_wanted(screen, now) -> None:
    console = screen()
    progress = SearchProgress(console, Objective("m"), now)
    progress(search())
    now.seconds += 60
    console.take()
    progress(search(5, trials=4, retrained=1))  # 4 of the search and its winner once more
    assert console.take() == "4/4 trials · 0 running · 1 retrained · 4.0 trials/min · 0:00 left\n"


def test_trials_of_an_earlier_run_do_not_count_for_the_rate(screen, now) -> None:
    console = screen()
    progress = SearchProgress(console, Objective("m"), now)
    progress(search(20))
    now.seconds += 30
    console.take()
    progress(search(25))
    assert "10.0 trials/min · 0:30 left" in console.take()


def test_the_time_of_the_search_bounds_what_is_left(screen, now) -> None:
    console = screen()
    progress = SearchProgress(console, Objective("m"), now)
    progress(search())
    now.seconds += 60
    console.take()
    progress(search(10, trials=math.inf, seconds=3600, used=600))
    assert console.take() == "10 trials · 0 running · 10.0 trials/min · 50:00 left\n"
    now.seconds += 60
    progress(search(0, trials=math.inf))  # nothing known: nothing claimed
    assert console.take() == "0 trials · 0 running\n"


def test_in_a_terminal_the_running_trials_are_drawn_four_times_a_second_at_most(screen, now) -> None:
    console = screen(terminal=True)
    progress = SearchProgress(console, Objective("m", minimise=True), now)
    drawn = []
    running = search(3, 0)
    running.running = {
        3: trial(3, -0.125, extra={"params": 12345.0}),
        4: trial(4),
    }
    for hundredth in range(100):
        now.seconds = 100 + hundredth / 100
        console.take()
        progress(running)
        if text := console.text.strip():
            drawn.append((hundredth, text))
    assert [moment for moment, _ in drawn] == [0, 25, 50, 75]
    rows = [line.split() for line in drawn[-1][1].splitlines()]
    assert ["trial", "epoch", "score", "origin", "topology"] in rows
    assert ["3", "1/1", "0.1250", "mutate", "12,345", "parameters"] in rows
    assert ["4", "0/20", "-", "mutate", trial(4).digest[:15]] in rows
    progress.close()
    progress.close()  # once more does nothing


def test_markup_in_a_metric_is_text(screen, now) -> None:
    for terminal in (False, True):
        console = screen(terminal=terminal)
        progress = SearchProgress(console, Objective("[bold]m[/bold]"), now)
        progress(search(1, best=trial(0, 0.5)))
        assert "best [bold]m[/bold] 0.5000" in console.text
        progress.close()


def test_what_another_search_trains_is_counted_apart(screen, now) -> None:
    console = screen(width=40)
    progress = SearchProgress(console, Objective("val_mse", minimise=True), now)
    progress(search(3, 1, awaited=2))
    assert console.take() == "3/30 trials · 1 running · 2 awaited from other searches\n"
