"""A recipe is better when it was better for the same topologies, and then alone."""

from dataclasses import asdict, replace

from detol.meta.recipes import better_recipe
from detol.search.recipe import Recipe
from detol.search.warm import Experience, PastTrial
from detol.spaces.decisions import Decisions

USUAL = Recipe()
FAST = replace(USUAL, learning_rate=0.3, weight_decay=1e-3, batch_size=16)


def tried(recipe, scores, data="x1:a", **changes):
    trials = tuple(PastTrial(f"s/{n}", f"d1:{name}", Decisions(), s) for n, (name, s) in enumerate(scores.items()))
    made = Experience(data, data, ("s",), "tiny", "val_accuracy", recipe.digest, asdict(recipe), 9, len(trials), trials)
    return replace(made, **changes)


BEFORE = {"a": 0.5, "b": 0.6, "c": 0.7}
BETTER = {"a": 0.6, "b": 0.7, "c": 0.69, "unlike": 0.1}


def test_what_did_better_on_shared_topologies_is_carried_over_without_the_batch_size():
    found = better_recipe([tried(USUAL, BEFORE), tried(FAST, BETTER)], "x1:a", asdict(USUAL))
    assert found == {"learning_rate": 0.3, "weight_decay": 1e-3}


def test_what_did_worse_or_on_other_topologies_or_for_longer_is_not():
    usual = tried(USUAL, BEFORE)
    worse = {name: score - 0.1 for name, score in BEFORE.items()}
    others = {name.upper(): 0.99 for name in BEFORE}
    for other in (
        tried(FAST, worse),
        tried(FAST, others),
        tried(FAST, BETTER, epochs=27),
        tried(FAST, BETTER, objective="val_r2"),
        tried(FAST, BETTER, data="x1:b"),
        tried(FAST, {"a": 0.9, "b": 0.9}),
    ):
        assert better_recipe([usual, other], "x1:a", asdict(USUAL)) == {}


def test_without_trainings_under_the_usual_recipe_there_is_nothing_to_be_better_than():
    slow = replace(USUAL, learning_rate=0.01)
    assert better_recipe([tried(slow, BEFORE), tried(FAST, BETTER)], "x1:a", asdict(USUAL)) == {}
