import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from detol.workers.reaper import agents, reaper, short_directory

DRIVER = """
from detol.workers.pool import RayExecutor
executor = RayExecutor(None, workers=1, entry="detol.workers.rehearsal:second")
while not executor.free():
    executor.poll(0.05)
print(executor._seats[0].about.pid, executor._ray.home, flush=True)
input()
"""


def descendants(root):
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_driver_leaves_no_process_and_no_directory():
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    worker, home = driver.stdout.readline().split()
    family = descendants(driver.pid)
    assert int(worker) in family
    assert len(home) < 40  # sockets below it may have 107 bytes
    driver.kill()
    driver.communicate()
    until(lambda: not any(lives(pid) for pid in family))
    until(lambda: not Path(home).exists())


def test_the_directory_goes_at_the_end():
    home = short_directory()
    with reaper(home) as watch:
        watch()
        assert home.exists()
    assert not home.exists()


def test_nobody_elses_processes_are_agents(tmp_path):
    assert agents(tmp_path) == []
