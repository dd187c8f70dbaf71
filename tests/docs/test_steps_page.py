"""The page of steps tells every way, every fact of the record, and every precision."""

import re

from detol.search.recipe import PRECISIONS
from detol.workers.step_way import VARIABLE, WAYS


def test_every_way_is_told(docs):
    page = (docs / "steps.md").read_text()
    table = page.split(f"| `{VARIABLE}` |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE)) == set(WAYS)
    assert all(f"`{name}`" in page for name in PRECISIONS)


def test_every_fact_is_told(docs):
    page = (docs / "steps.md").read_text()
    assert all(f"| `{name}` |" in page for name in ("step", "blocks", "blocks_failed", "setup_seconds"))
