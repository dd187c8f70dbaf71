import subprocess
import sys

import pytest

from detol.errors import UsageError
from detol.execution.inline import InlineExecutor
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Ended, Job, Origin, Reported, State
from detol.spaces.decisions import Decisions
from detol.workers.data import read
from detol.workers.evaluate import evaluate
from detol.workers.train import train

TOPOLOGY = chain(op("conv", channels=8, stride=2))
CANDIDATE = Candidate(Decisions(), TOPOLOGY, Origin.SAMPLE)


@pytest.fixture(scope="module")
def digits():
    return read("digits")


def test_it_trains_one_epoch_a_poll_and_hands_over_the_weights(digits):
    executor = InlineExecutor(digits, threads=1)
    executor.submit(Job(4, CANDIDATE, Recipe(), 2, seed=9))
    assert executor.free() == 0
    first, second, end = (event for _ in range(3) for event in executor.poll(0))
    assert isinstance(first, Reported)
    assert (end.number, end.state, end.reason) == (4, State.COMPLETED, "")
    expected = list(train(TOPOLOGY, digits, Recipe(), epochs=2, seed=9))
    assert [first.report.metrics, second.report.metrics] == [report.metrics for report in expected]
    assert (
        evaluate(TOPOLOGY, end.weights, digits, "validation")["val_accuracy"] == (expected[-1].metrics["val_accuracy"])
    )
    assert executor.free() == 1


def test_a_job_that_does_not_fit_the_data_fails_and_the_next_one_runs(digits):
    executor = InlineExecutor(digits)
    bad = Candidate(Decisions(), chain(op("linear")), Origin.SAMPLE)
    executor.submit(Job(0, bad, Recipe(), 1, seed=0))
    (end,) = executor.poll(0)
    assert end.state is State.FAILED
    assert end.reason.startswith("ShapeError: ")
    executor.submit(Job(1, CANDIDATE, Recipe(), 1, seed=0))
    assert isinstance(executor.poll(0)[0], Reported)
    assert isinstance(executor.poll(0)[0], Ended)


def test_wide_jobs_are_refused(digits):
    with pytest.raises(UsageError, match="width 2"):
        InlineExecutor(digits).submit(Job(0, CANDIDATE, Recipe(), 1, seed=0, width=2))


def test_executors_import_no_torch():
    code = "import sys, detol.execution.inline, detol.execution.function; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
