"""Recipe settings on the command line: what is wrong is told in one line before anything starts."""

import json

import pytest

from detol import cli


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("recipe.communication=powrsgd", "unknown recipe communication 'powrsgd': did you mean powersgd"),
        ("recipe.communication=topk:2", "the share of recipe communication topk must be above 0 and at most 1"),
        ("recipe.communication=fp16:8", "takes no value"),
        ("recipe.accumulate=0", "recipe accumulate must be >= 1"),
        ("recipe.accumulate=some", "recipe accumulate must be of type int"),
        ("recipe.optimiser=lamp", "did you mean lamb"),
        ("recipe.comunication=fp16", "did you mean communication"),
    ],
)
def test_a_wrong_setting_is_one_line(setting, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["search", "--data", "digits", "--trials", "1", "--set", setting]) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert not shown.out
    assert not list(tmp_path.rglob("*.db"))


def test_settings_of_exchange_make_a_recipe():
    from detol.config import Settings
    from detol.search.recipe import make_recipe

    options = {"recipe": {"communication": "topk:0.02", "accumulate": "2", "base_batch": "32", "step_factor": "2.5"}}
    recipe = make_recipe(Settings.from_dict({"data": "digits", "options": options}).section("recipe"))
    assert json.loads(json.dumps(recipe.communication)) == "topk:0.02"
    assert (recipe.accumulate, recipe.base_batch, recipe.step_factor) == (2, 32, 2.5)
