"""What the page on ranks says is what the code does."""

import re

from detol.workers.elastic import roll
from detol.workers.group import Group


def test_the_limits_are_those_of_the_code(docs):
    page = (docs / "ranks.md").read_text()
    assert f"for {roll.STALL:g} seconds ({roll.LONE_STALL:g} where" in page
    assert f"`{roll.LIMIT_VARIABLE}` seconds (by default {roll.STEP_LIMIT:g})" in page


def test_the_facts_are_those_of_the_code(docs):
    page = (docs / "ranks.md").read_text()
    group = Group()
    group.lost = ("2 at step 317",)
    assert re.findall(r"^\| `(\w+)` \| `([^`]+)`", page, flags=re.MULTILINE)[0] == (
        "ranks_lost",
        group.facts()["ranks_lost"],
    )
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == set(group.facts())
