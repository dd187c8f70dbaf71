"""The layout of the design: packages, import directions, homes of the big libraries, sizes of files."""

import ast
import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "detol": "detol",
    "search_spaces": "detol.search_spaces",
    "workers": "detol.workers",
    "dashboards": "detol.dashboards",
}

# Each group may import itself and what stands in the groups named here (and nothing else of detol).
CORE = {"errors", "graph"}
RECORDS = CORE | {"spaces", "search"}
LEVELS = {
    "errors": set(),
    "graph": {"errors"},
    "spaces": CORE | {"search", "search_spaces"},
    "search": CORE | {"spaces"},
    "search_spaces": RECORDS,
    "embedding": RECORDS,
    "strategies": RECORDS | {"embedding"},
    "stopping": RECORDS,
    "scaling": RECORDS,
    "workers": RECORDS | {"scaling"},
    "meta": RECORDS | {"workers"},
    "execution": RECORDS | {"workers"},
    "results": RECORDS | {"embedding"},
    "tracking": RECORDS,
    "export": RECORDS | {"workers", "tracking"},
    "bench": RECORDS | {"execution", "tracking"},
    "dashboards": RECORDS | {"results"},
}
HOMES = {
    "ray": ("workers/pool.py", "workers/actor.py", "workers/local_ray.py"),
    "mlflow": ("detol/tracking/", "detol/export/"),
    "optuna": ("detol/strategies/optuna_sampler.py",),
    "torch": ("detol/graph/build.py", "detol/strategies/", "detol/embedding/", "detol/export/", "workers/"),
}


def sources() -> Iterator[tuple[str, str, ast.Module]]:
    """Yield (path from the root, module name, tree) of every source file."""
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *parts]).removesuffix(".__init__")
            yield path.relative_to(ROOT).as_posix(), name, ast.parse(path.read_text())


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def group(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_declared_packages_are_the_folders_on_disk():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for folder, package in FOLDERS.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(declared) == found


def test_every_folder_with_modules_is_a_package():
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} lacks __init__.py"


def test_imports_point_inwards():
    wrong = []
    for path, name, tree in sources():
        own = group(name)
        if own not in LEVELS:
            continue  # config, wire, cli and commands may name everything
        for module in imports(tree):
            if module.split(".")[0] == "detol" and group(module) not in LEVELS[own] | {own, ""}:
                wrong.append(f"{path} imports {module}")
    assert not wrong


def test_controller_knows_protocols_alone():
    for path, _, tree in sources():
        if path.startswith("detol/search/"):
            for module in imports(tree):
                assert module.split(".")[0] in sys.stdlib_module_names | {"detol", "numpy"}, f"{path} imports {module}"


@pytest.mark.parametrize("library", HOMES)
def test_big_libraries_have_homes(library):
    strays = [
        path
        for path, _, tree in sources()
        if any(module.split(".")[0] == library for module in imports(tree)) and not path.startswith(HOMES[library])
    ]
    assert not strays


def test_no_file_is_long():
    long = {path: len((ROOT / path).read_text().splitlines()) for path, _, _ in sources()}
    assert {path: lines for path, lines in long.items() if lines > 420} == {}


@pytest.mark.parametrize("folder", ["search_spaces", "workers", "dashboards"])
def test_mapped_folders_refuse_their_bare_name(folder):
    found = subprocess.run(
        [sys.executable, "-c", f"import {folder}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert f"import detol.{folder} instead" in found.stderr


def test_every_module_says_what_it_is_for():
    for path, _, tree in sources():
        assert ast.get_docstring(tree), f"{path} has no docstring"


@pytest.mark.parametrize("name", ["detol.search_spaces", "detol.workers.data", "detol.dashboards"])
def test_mapped_packages_import(name):
    assert importlib.import_module(name)
