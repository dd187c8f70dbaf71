"""Who runs a search, and when a search counts as left behind."""

import gc
import os
import socket
import subprocess
import sys
import time

import pytest

from detol.results import owner


class Holder:
    """Something that runs a search."""


def test_an_object_of_this_process_owns_while_it_lives() -> None:
    holder = Holder()
    row = owner.claim(holder)
    assert (row["host"], row["pid"]) == (socket.gethostname(), os.getpid())
    assert owner.alive(row)
    del holder
    gc.collect()
    assert not owner.alive(row)


def test_released_and_nobody() -> None:
    holder = Holder()
    row = owner.claim(holder)
    assert not owner.alive({**row, **owner.release(row["owner"])})
    assert not owner.alive(row)


def test_a_process_of_this_machine_owns_while_it_lives() -> None:
    code = (
        "import json; from detol.results import owner; o = type('O', (), {})();"
        "print(json.dumps(owner.claim(o)), flush=True); input()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    import json

    row = json.loads(process.stdout.readline())
    silent = {**row, "heartbeat": 0.0}  # the process counts, not its heartbeat
    assert owner.alive(silent)
    assert not owner.alive({**silent, "owner": f"1:{row['owner']}"})  # another process with the same id
    process.communicate("\n")
    assert not owner.alive(row)


@pytest.mark.parametrize(
    ("silence", "alive"), [(0.0, True), (owner.STALE_SECONDS - 60, True), (owner.STALE_SECONDS + 60, False)]
)
def test_another_machine_owns_while_its_heart_beats(silence: float, alive: bool) -> None:
    row = {"host": "elsewhere.example", "pid": os.getpid(), "owner": "1:x", "heartbeat": time.time() - silence}
    assert owner.alive(row) is alive
