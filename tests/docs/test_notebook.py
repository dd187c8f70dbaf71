"""The notebook runs from its first cell to its last, and shows what it shows in the page."""

import re

import nbformat
import pytest


@pytest.fixture(scope="module")
def executed(docs, make, tmp_path_factory):
    return make.notebook(docs / "example.ipynb", tmp_path_factory.mktemp("notebook"))


def shown(cell):
    """Return what kinds of output a cell has; a PNG is added for pages on which no script runs."""
    return [
        (output.output_type, sorted(set(output.get("data", {})) - {"image/png"})) for output in cell.get("outputs", ())
    ]


def test_every_cell_shows_what_it_shows_in_the_page(docs, executed):
    page = nbformat.read(docs / "example.ipynb", as_version=4)
    nbformat.validate(page)
    for kept, new in zip(page.cells, executed.cells, strict=True):
        assert shown(kept) == shown(new), f"{kept.source}: python docs/make.py notebook"


def test_the_outputs_are_the_real_ones(executed):
    found = {
        cell.source.splitlines()[-1]: cell.outputs[-1]["data"].get("text/plain", "")
        for cell in executed.cells
        if cell.get("outputs")
    }
    assert re.fullmatch(r"Search\('example', finished, 12 trials, best val_accuracy 0\.9\d+\)", found["search.run()"])
    assert found["again.run().status.trained, again.status.reused"] == "(0, 12)"
    assert found["again.status.trained, again.status.reused"] == "(4, 12)"
    assert "best score" in found["found"]
    assert found["}"].count("accuracy") == 2


def test_progress_became_one_line(executed):
    (cell,) = [cell for cell in executed.cells if cell.source == "search.run()"]
    assert "example: all 12 trials are done" in cell.outputs[0]["data"]["text/html"]
