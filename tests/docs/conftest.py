"""What makes the generated pages, and a folder like the one of somebody who reads them."""

import importlib.util
import shutil
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="session")
def docs():
    """The folder of the pages."""
    return DOCS


@pytest.fixture(scope="session")
def make():
    """The script that makes the generated pages, as a module."""
    spec = importlib.util.spec_from_file_location("detol_docs_make", DOCS / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory in which only the examples are."""
    shutil.copytree(DOCS / "examples", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path
