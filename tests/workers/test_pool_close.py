"""Closing the pool at an awkward moment."""

import subprocess
import sys

CODE = """
from detol.workers.pool import RayExecutor
executor = RayExecutor(None, workers=2, entry="detol.workers.rehearsal:instant", weights=False)
while {moment}:
    pass
executor.close()
print("closed")
"""


def closed(moment):
    """Close in a process of its own, since Ray ends the whole process when it is shut down in the middle of a call."""
    found = subprocess.run(
        [sys.executable, "-P", "-c", CODE.format(moment=moment)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return found.returncode, found.stdout.strip()


def test_a_search_that_needs_no_worker_may_end_before_they_are_up():
    assert closed("False") == (0, "closed")


def test_closed_while_workers_start():
    assert closed("not executor._openers") == (0, "closed")
