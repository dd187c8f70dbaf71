"""Wheel, sdist and editable install hold the whole program, the mapped folders included."""

import importlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "detol": "detol",
    "search_spaces": "detol/search_spaces",
    "workers": "detol/workers",
    "dashboards": "detol/dashboards",
}


def run(*command, **options):
    found = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, **options)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a clean copy of the tree, and the wheel made from that sdist."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    shutil.copytree(
        ROOT,
        source,
        ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "dist", "__pycache__", "detol-runs", "tests"),
    )
    run("-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    return next(folder.glob("dist/*.whl")), next(folder.glob("dist/*.tar.gz"))


def modules():
    """Paths of all modules as they are installed."""
    return {
        f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }


def test_the_wheel_holds_every_module_and_nothing_else(built):
    wheel, _ = built
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".py")}
        assert names == modules()
        assert "detol/py.typed" in archive.namelist()


def test_the_sdist_holds_every_source(built):
    _, sdist = built
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert path.relative_to(ROOT).as_posix() in names
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names


def test_the_wheel_works_where_nothing_of_the_source_is(built, tmp_path):
    wheel, _ = built
    site = tmp_path / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import detol.workers.data, detol.dashboards;"
        "from detol.spaces import catalogue; print(detol.workers.data.__file__, catalogue.load('tiny').size)"
    )
    file, size = run("-P", "-c", code, site, cwd=tmp_path).split()
    assert Path(file).is_relative_to(site)
    assert size == "18"


def test_the_editable_install_points_at_the_folders_of_the_root():
    if not Path(importlib.import_module("detol").__file__).is_relative_to(ROOT):
        pytest.skip("detol is not installed as editable here")
    for folder in ("workers", "search_spaces", "dashboards"):
        module = importlib.import_module(f"detol.{folder}")
        assert Path(module.__file__) == ROOT / folder / "__init__.py"
