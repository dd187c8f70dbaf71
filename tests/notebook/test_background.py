"""A search in a thread: errors come back, waiting has an end, and the interpreter's end is its end too."""

import subprocess
import sys
import threading

import pytest

from detol.notebook.background import Background
from detol.result import SearchResult
from detol.results.query import Query
from detol.results.store import Database
from detol.search.records import Objective
from detol.watch import Quiet

RESULT = SearchResult("x", [], None, (Objective("score"),))


def test_the_result_and_the_thread_that_made_it():
    seen, done = [], []

    def work(watcher):
        seen.append(threading.current_thread())
        return RESULT

    made = Background(work, Quiet(), lambda *ended: done.append(ended))
    assert made.wait()
    assert (made.result, made.error, made.alive) == (RESULT, None, False)
    assert seen[0] is not threading.current_thread()
    assert done == [(RESULT, None)]


@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt("pressed")])
def test_what_is_raised_is_kept(error):
    def work(watcher):
        raise error

    made = Background(work, Quiet())
    assert made.wait()
    assert made.error is error
    assert made.result is None


def test_waiting_has_an_end():
    go_on = threading.Event()

    def work(watcher):
        go_on.wait(30)
        return RESULT

    made = Background(work, Quiet())
    assert not made.wait(0)
    assert made.alive
    go_on.set()
    assert made.wait()


class Controller:
    """Notes whether it was interrupted."""

    interrupted = False

    def interrupt(self):
        self.interrupted = True


def test_a_stop_interrupts_the_next_turn_alone():
    first, second, turned, stopped = Controller(), Controller(), threading.Event(), threading.Event()

    def work(watcher):
        watcher(first)
        turned.set()
        stopped.wait(30)
        watcher(second)
        return RESULT

    made = Background(work, Quiet())
    turned.wait(30)
    made.stop()
    stopped.set()
    made.wait()
    assert (first.interrupted, second.interrupted) == (False, True)


PROGRAM = """
import sys
import detol
search = detol.Search(data="digits", space="tiny", strategy="random", stop="none", epochs=500, trials=18,
                      executor="inline", tracking="off", name="left", db=sys.argv[1])
search.start()
while search.state != "running" or not search.status.trials:
    search.wait(0.05)
"""  # a search of an hour, and a program that does not wait for it


def test_a_program_that_ends_interrupts_its_search(tmp_path):
    db = tmp_path / "results.db"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(db)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    with Database(db) as database:
        status = Query(database).status("left")
    assert status.state == "interrupted"
    assert status.pid is None  # its controller gave it back, nobody had to find out that it is dead
