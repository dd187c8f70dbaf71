"""Strict mypy over the whole program.

Run from the root it would silently check ``detol/`` only: the mapped folders are linked into one temporary tree first.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_types_are_strict(tmp_path):
    package = tmp_path / "detol"
    package.mkdir()
    for path in (ROOT / "detol").iterdir():
        if path.name != "__pycache__":
            (package / path.name).symlink_to(path)
    for folder in ("search_spaces", "workers", "dashboards"):
        (package / folder).symlink_to(ROOT / folder)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        ROOT / "pyproject.toml",
        "--cache-dir",
        ROOT / ".mypy_cache",
        "detol",
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    checked = int(found.stdout.split("no issues found in ")[1].split()[0])
    files = sum(
        1 for folder in ("detol", "search_spaces", "workers", "dashboards") for _ in (ROOT / folder).rglob("*.py")
    )
    assert checked == files
