"""Recipes: digests that never change, rules, and the ways to exchange gradients by name."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detol import defaults
from detol.errors import UsageError
from detol.search.exchange import NAMES, Exchange, parse
from detol.search.recipe import OPTIMISERS, SCHEDULES, Recipe, make_recipe
from detol.workers import devices

# As they stood in results databases before recipes had more than their first thirteen settings.
STORED = {
    "r1:eb8557239f6ae002": {},
    "r1:077c91acda895ece": {
        "optimiser": "adamw",
        "learning_rate": 6e-3,
        "weight_decay": 0.1,
        "schedule": "one_cycle",
        "batch_size": 32,
    },
    "r1:caa55d6a5d999416": {"augment": "flip,crop", "sync_norm": True, "precision": "bfloat16"},
}
LATER = {
    "communication": "fp16",
    "accumulate": 2,
    "base_batch": 32,
    "step_factor": 10.0,
    "max_batch": 512,
    "averaging": 0.98,
}


@pytest.mark.parametrize("digest", STORED)
def test_digests_of_old_recipes_stay(digest: str) -> None:
    assert Recipe(**STORED[digest]).digest == digest


@pytest.mark.parametrize("name", LATER)
def test_a_later_setting_counts_where_it_is_not_usual(name: str) -> None:
    changed = Recipe(**{name: LATER[name]})
    assert changed.digest != Recipe().digest
    assert Recipe(**{name: getattr(Recipe(), name)}).digest == Recipe().digest
    assert make_recipe({name: str(LATER[name])}) == changed


def test_two_spellings_of_one_way_have_one_digest() -> None:
    assert Recipe(communication="topk").communication == "topk:0.01"
    assert Recipe(communication="topk").digest == Recipe(communication="topk:1e-2").digest
    assert Recipe(communication="topk").digest != Recipe(communication="topk:0.02").digest


@given(st.sampled_from(NAMES), st.integers(2, 500))
def test_a_way_survives_being_written(name: str, number: int) -> None:
    value = {"powersgd": float(number), "topk": 1 / number, "local_sgd": float(number)}.get(name, 0.0)
    found = parse(str(Exchange(name, value)))
    assert found.name == name
    assert found.value == pytest.approx(value, rel=1e-5)
    assert parse(str(found)) == found


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"communication": "powrsgd"}, "unknown recipe communication 'powrsgd': did you mean powersgd"),
        ({"communication": "fp16:2"}, "takes no value"),
        ({"communication": "powersgd:0"}, "rank .* at least 1, got '0'"),
        ({"communication": "powersgd:1.5"}, "whole number"),
        ({"communication": "topk:0"}, "above 0 and at most 1"),
        ({"communication": "topk:nan"}, "above 0 and at most 1"),
        ({"communication": "topk:much"}, "got 'much'"),
        ({"communication": "local_sgd:1"}, "at least 2"),
        ({"communication": "local_sgd:inf"}, "whole number"),
        ({"accumulate": 0}, "accumulate must be >= 1, got 0"),
        ({"base_batch": -1}, "base_batch must be >= 1, or 0"),
        ({"step_factor": 1.0}, "step_factor must be > 1"),
        ({"step_factor": 1e200}, "at most 1e6"),  # its third power is beyond floats
        ({"learning_rate": math.inf}, "learning_rate must be > 0 and finite"),
        ({"weight_decay": math.inf}, "weight_decay must be >= 0 and finite"),
        ({"max_batch": -5}, "max_batch"),
        ({"averaging": 1.0}, r"averaging must be in \[0, 1\), got 1.0"),
        ({"averaging": 0.9, "communication": "local_sgd"}, "weights that all ranks share.*: use 0"),
        ({"optimiser": "larsen"}, "did you mean lars"),
    ],
)
def test_a_setting_against_its_rule_is_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as found:
        Recipe(**settings)  # type: ignore[arg-type]
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accumulate": 1.5}, "accumulate must be a whole number, got 1.5"),
        ({"batch_size": math.inf}, "batch_size must be a whole number, got inf"),
        ({"max_batch": math.nan}, "max_batch must be a whole number, got nan"),
        ({"batch_size": True}, "batch_size must be a whole number, got True"),
        ({"sync_norm": 7}, "sync_norm must be true or false, got 7"),
        ({"nesterov": "maybe"}, "nesterov must be true or false, got 'maybe'"),
    ],
)
def test_numbers_are_not_cut_to_a_type(settings: dict[str, bool | float | str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_recipe(settings)


def test_what_says_the_same_is_taken() -> None:
    assert make_recipe({"accumulate": 2.0, "sync_norm": 1, "nesterov": "False"}) == Recipe(
        accumulate=2, sync_norm=True, nesterov=False
    )


def test_all_names_make_recipes() -> None:
    made = [Recipe(optimiser=one, schedule=two) for one in OPTIMISERS for two in SCHEDULES]
    assert len({recipe.digest for recipe in made}) == len(OPTIMISERS) * len(SCHEDULES)


def test_the_peak_is_linear_in_the_batch() -> None:
    # Goyal et al. 2017: 0.1 for 256 images is 3.2 for 8,192.
    assert Recipe(learning_rate=0.1, batch_size=8192, base_batch=256).peak == pytest.approx(3.2)
    assert Recipe(learning_rate=0.1, batch_size=8192).peak == 0.1


def test_only_a_constant_rate_from_the_start_is_anytime() -> None:
    assert Recipe(schedule="constant", warmup=0.0).anytime
    assert not any(Recipe(schedule=name, warmup=0.0).anytime for name in SCHEDULES if name != "constant")


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("image", (3, 32, 32), "flip,crop"),
        ("image", (1, 28, 28), "crop"),
        ("image", (1, 8, 8), ""),
        ("signal", (1, 96), "crop"),
        ("signal", (3, 12), ""),
        ("features", (54,), ""),
    ],
)
def test_by_default_what_has_room_is_shifted_and_colour_images_are_mirrored(
    kind: str, shape: tuple[int, ...], expected: str
) -> None:
    assert defaults.recipe(kind, shape, 1_000).augment == expected


def test_averaging_of_the_defaults_goes_where_the_exchange_has_no_common_weights() -> None:
    usual = defaults.recipe("image", (1, 8, 8), 1_000)
    assert usual.averaging > 0
    assert make_recipe({"communication": "local_sgd:4"}, usual).averaging == 0
    assert make_recipe({"communication": "powersgd:2"}, usual).averaging == usual.averaging
    with pytest.raises(UsageError, match="use 0"):
        make_recipe({"communication": "local_sgd:4", "averaging": 0.9}, usual)


@pytest.mark.parametrize(
    ("kind", "shape", "device", "elsewhere", "amx", "expected"),
    [
        ("image", (1, 28, 28), "auto", False, True, "bfloat16"),
        ("image", (3, 16, 16), "cpu", False, True, "bfloat16"),
        ("image", (1, 8, 8), "cpu", False, True, "float32"),
        ("image", (1, 28, 8), "cpu", False, True, "float32"),
        ("signal", (1, 96), "cpu", False, True, "float32"),
        ("features", (54,), "cpu", False, True, "float32"),
        ("image", (1, 28, 28), "cpu", False, False, "float32"),
        ("image", (1, 28, 28), "cpu", True, True, "float32"),
        ("image", (1, 28, 28), "cuda", False, True, "float32"),
    ],
)
def test_convolutions_are_multiplied_in_bfloat16_where_that_is_known_to_be_faster(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    shape: tuple[int, ...],
    device: str,
    elsewhere: bool,
    amx: bool,
    expected: str,
) -> None:
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: amx)
    monkeypatch.setattr(devices, "gpus", lambda: int(device == "cuda"))
    assert defaults.precision("classification", kind, shape, device, elsewhere=elsewhere) == expected
    assert defaults.precision("regression", kind, shape, device, elsewhere=elsewhere) == "float32"
    assert defaults.recipe(kind, shape, 1_000, expected).precision == expected
