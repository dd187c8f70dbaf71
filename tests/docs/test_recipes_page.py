"""The page of recipes tells every way to exchange and every setting for large batches, with the usual values."""

import re
from dataclasses import fields

from detol.search.exchange import NAMES, parse
from detol.search.recipe import OPTIMISERS, SCHEDULES, Recipe

LATER = ("communication", "accumulate", "base_batch", "step_factor", "max_batch", "averaging")


def test_every_way_is_told_with_its_usual_value(docs):
    page = (docs / "recipes.md").read_text()
    for name in NAMES:
        assert re.search(rf"^\| .*`{name}\b", page, flags=re.MULTILINE), name
        value = parse(name).value
        if value:
            assert re.search(rf"^\| `{name}:[A-Z]+` \({value:g}\)", page, flags=re.MULTILINE), name


def test_settings_exist_and_are_told(docs):
    page = (docs / "recipes.md").read_text()
    known = {field.name for field in fields(Recipe)}
    for name in re.findall(r"recipe\.([a-z_]+)", page):
        assert name in known | {"py"}, name
    assert all(name in page for name in LATER)
    told = re.findall(r"`(optimiser|schedule)=(\w+)`", page)
    assert {value for _, value in told} <= {*OPTIMISERS, *SCHEDULES}
    assert Recipe().step_factor == 5.0
    assert "`step_factor` (5)" in page
