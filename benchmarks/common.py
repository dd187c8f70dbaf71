"""What benchmarks share: a line about the device, and one JSON object as the last line."""

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def arguments(about: str) -> argparse.ArgumentParser:
    """Return a parser with ``--json`` and ``--quick``."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="under a minute on two cores, with a smaller n")
    return parser


def device() -> dict[str, Any]:
    """Return what this ran on: processor, cores, versions."""
    model = platform.processor() or platform.machine()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = {"python": platform.python_version()}
    for name in ("detol", "torch", "ray", "mlflow", "optuna", "numpy", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"device": model, "cores": len(os.sched_getaffinity(0)), "versions": versions}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return n, median, least and greatest of some measurements."""
    return {"n": len(values), "median": statistics.median(values), "min": min(values), "max": max(values)}


def conclude(figures: dict[str, Any], as_json: bool) -> None:
    """Print the figures: a line each, and the JSON object as the last line when it was asked for."""
    figures = {**figures, **device()}
    for name, value in figures.items():
        print(f"{name}: {json.dumps(value)}")
    if as_json:
        print(json.dumps(figures))
