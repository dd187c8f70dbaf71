"""A short run of the benchmark's cluster: two searches and two readers at one PostgreSQL whose server is killed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.skipif(
    "DETOL_TEST_CLUSTER" not in os.environ,
    reason="several processes and a server of its own, whose end depends on what else runs: set DETOL_TEST_CLUSTER=1",
)
def test_nothing_is_lost_when_the_server_is_killed() -> None:
    spec = importlib.util.spec_from_file_location("postgres_server", BENCHMARKS / "postgres_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.binaries() is None:
        pytest.skip("PostgreSQL is not installed here")
    command = [sys.executable, BENCHMARKS / "database.py", "--only", "cluster", "--json"]
    command += ["--readers", "2", "--trials", "12", "--kills", "1"]
    found = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": ""}
    )
    told = json.loads(found.stdout.splitlines()[-1])["cluster"]
    assert told["exit_codes"] == [0, 0, 0, 0]
    assert [search["trials"] for search in told["searches"]] == [12, 12]
    assert (told["lost"], told["wrong"], told["faults"], told["errors"]) == (0, 0, [], [])
    assert told["held"] == {"trials": 24, "epochs": 10 * sum(search["trained"] for search in told["searches"])}
    assert told["asked"] > 0
    assert "does not answer" in found.stderr
