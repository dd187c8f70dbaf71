"""Several ranks, each a process of its own, answer once for all tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GROUPS = {2: ("learn", "pauses", "widths", "accumulation", "job", "lines", "recorded", "averaged"), 3: ("lines",)}


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """Returns by width the answers of each rank."""
    folder = tmp_path_factory.mktemp("ranks")
    words = [",".join([str(width), *names]) for width, names in GROUPS.items()]
    command = [sys.executable, "-P", str(HERE / "ranks.py"), str(folder), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert found.returncode == 0, found.stderr
    return {
        width: [json.loads((folder / f"{width}-{rank}.json").read_text()) for rank in range(width)] for width in GROUPS
    }


@pytest.fixture(scope="session")
def two(ranks):
    """Returns the answers of two ranks."""
    return ranks[2]
