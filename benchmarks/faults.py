"""What is lost when processes are killed: ``kill -9`` of the controller at five moments and of a worker at two.

One search of real training on Ray. The controller is killed when 0, 3, 6, 9 and 12 trials are final, then resumed; in
the last run a worker is killed when 14 and 16 are. In the end the trials must be the same, curve by curve, as those of
a search that nobody disturbed (random search: its proposals do not depend on the order of arrival).
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import arguments, conclude

KILLS = (0, 3, 6, 9, 12)
WORKER_KILLS = (14, 16)
TABLE = "SELECT number, state, attempt, epoch, round(score, 4), substr(reason, 1, 40) FROM trials ORDER BY number"

CURVES = """
    SELECT t.number, t.digest, r.epoch, r.score FROM trials t
    JOIN reports r ON r.search = t.search AND r.number = t.number ORDER BY t.number, r.epoch
"""


def rows(path: Path, query: str) -> list[Any]:
    """Return rows of the results database; none before it exists."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []


def final(path: Path) -> int:
    """Return how many trials are final."""
    found = rows(path, "SELECT count(*) FROM trials WHERE state != 'running'")
    return found[0][0] if found else -1


def workers(controller: int) -> list[int]:
    """Return the process ids of the actors that train for one controller."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if command.startswith("ray::Worker") and controller in ancestors(int(entry.name)):
                found.append(int(entry.name))
    return sorted(found)


def ancestors(process: int) -> list[int]:
    """Return the process ids above a process."""
    found = []
    while process > 1:
        try:
            stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        process = int(stat.rpartition(")")[2].split()[1])
        found.append(process)
    return found


def start(arguments: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    """Start a command of detol in a folder."""
    log = (folder / "log").open("ab")
    return subprocess.Popen([sys.executable, "-m", "detol", *arguments], cwd=folder, stdout=log, stderr=log)


def wait_for(process: "subprocess.Popen[bytes]", path: Path, count: int) -> None:
    """Wait until a trial runs and so many are final, or the process ended."""
    while process.poll() is None and (final(path) < count or not rows(path, TABLE)):
        time.sleep(0.02)


def main() -> None:
    """Kill, resume, compare."""
    options = arguments(__doc__ or "").parse_args()
    kills = KILLS[:2] if options.quick else KILLS
    worker_kills = () if options.quick else WORKER_KILLS
    trials = 6 if options.quick else 20
    folder = Path(tempfile.mkdtemp(prefix="detol-"))
    base = ["search", "--data", "digits", "--space", "image_cell", "--strategy", "random", "--stop", "none"]
    base += ["--epochs", "3", "--workers", "2", "--trials", str(trials), "--tracking", "off"]
    disturbed, calm = folder / "disturbed.db", folder / "calm.db"
    began = time.perf_counter()
    command = [*base, "--name", "killed", "--db", str(disturbed)]
    for moment in kills:
        process = start(command, folder)
        wait_for(process, disturbed, moment)
        before = rows(disturbed, TABLE)
        process.send_signal(signal.SIGKILL)
        process.wait()
        print(f"controller killed with {final(disturbed)} trials final: {before}", flush=True)
        command = ["resume", "killed", "--db", str(disturbed)]
    process = start(command, folder)
    for moment in worker_kills:
        wait_for(process, disturbed, moment)
        found = workers(process.pid)
        if found:
            os.kill(found[0], signal.SIGKILL)
            print(
                f"worker {found[0]} killed with {final(disturbed)} trials final: {rows(disturbed, TABLE)}", flush=True
            )
    code = process.wait()
    print(f"resumed to the end, exit code {code}: {rows(disturbed, TABLE)}", flush=True)
    seconds = time.perf_counter() - began
    start([*base, "--name", "calm", "--db", str(calm)], folder).wait()
    curves = [rows(path, CURVES) for path in (disturbed, calm)]
    conclude(
        {
            "benchmark": "faults",
            "quick": options.quick,
            "controller_kills": len(kills),
            "worker_kills": len(worker_kills),
            "exit_code": code,
            "trials": len(rows(disturbed, TABLE)),
            "completed": rows(disturbed, "SELECT count(*) FROM trials WHERE state = 'completed'")[0][0],
            "second_attempts": rows(disturbed, "SELECT count(*) FROM trials WHERE attempt > 1")[0][0],
            "reports_compared": len(curves[1]),
            "curves_equal_those_of_an_undisturbed_search": bool(curves[1]) and curves[0] == curves[1],
            "seconds": seconds,
        },
        options.json,
    )


if __name__ == "__main__":
    main()
