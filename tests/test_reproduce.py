"""The command line that does a search again means the same settings."""

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detol import cli, run
from detol.config import Settings
from detol.reproduce import command, of_search
from detol.workers import devices


class Parsed(Exception):
    """Ends a search before it starts."""


def parsed(line: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return what the command line understands, as a shell would hand it over."""
    found: list[Settings] = []

    def take(given: Settings, *_: Any, **__: Any) -> None:
        found.append(given)
        raise Parsed

    words = shlex.split(line)
    assert words[:2] == ["detol", "search"]
    with monkeypatch.context() as patch:
        patch.setattr(run, "search", take)
        with pytest.raises(Parsed):
            cli.run(words[1:])
    return found[0]


def options(made: Settings) -> dict[str, Any]:
    """Return the options without empty sections."""
    return {section: dict(pairs) for section, pairs in made.options.items() if pairs}


@pytest.mark.parametrize(
    "made",
    [
        Settings(data="digits"),
        Settings(data="digits", trials=200, epochs=27, seed=3, stop="asha", strategy="evolution", workers=4),
        Settings(data="it's here/a b.csv", target="last $x", space="my spaces.py:SPACE", hours=1.5, references=False),
        Settings(data="digits", objective=("val_accuracy", "params:min"), max_params=1e5, inherit="morph", ranks="2"),
        Settings(data="digits", strategy="prune:edges", stop="none"),
        Settings(data="digits", strategy="prune:edges", stop="asha"),
        Settings(
            data="digits", options={"strategy": {"population": 20, "thrift": 0.5}, "recipe": {"optimiser": "adamw"}}
        ),
        Settings(
            data="digits", options={"data": {"header": "3", "variables": {"x": "a b"}}, "stop": {"rungs": [1, 3]}}
        ),
    ],
    ids=lambda made: command(made)[13:60],
)
def test_it_means_the_settings(made: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    again = parsed(command(made), monkeypatch)
    assert options(again) == options(made)
    apart = {"options": {}, "name": ""}
    assert Settings(**{**vars(again), **apart}) == Settings(**{**vars(made), **apart})


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
values = texts | st.integers(-9, 9) | st.booleans() | st.floats(-9, 9) | st.lists(st.integers(0, 9), max_size=3)


@settings(max_examples=30, deadline=None)
@given(data=texts.filter(lambda text: not text.startswith("-")), value=values, seed=st.integers(0, 2**31))
def test_whatever_is_given_comes_back(data: str, value: Any, seed: int) -> None:
    made = Settings(data=data, seed=seed, options={"strategy": {"key": value}})
    with pytest.MonkeyPatch.context() as patch:
        again = parsed(command(made), patch)
    assert (again.data, again.seed, options(again)) == (data, seed, {"strategy": {"key": value}})


def test_where_a_search_ran_is_not_in_it() -> None:
    line = command(Settings(data="digits", name="n", db="x.db", tracking="http://u:secret@h", ray="h:1", metrics="9"))
    assert line == "detol search --data digits"


class Recorded:
    """A results database that knows one search."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self._recipe = recipe

    def settings(self, name: str) -> dict[str, Any]:
        return {"settings": {"settings": Settings(data=name).as_dict(), "recipe": self._recipe}}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies bfloat16 no faster."""
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: False)


@pytest.mark.parametrize(
    ("recorded", "amx", "told"),
    [
        ("bfloat16", True, " --set recipe.precision=bfloat16"),
        ("bfloat16", False, " --set recipe.precision=bfloat16"),
        ("float32", True, " --set recipe.precision=float32"),
        ("float32", False, ""),
    ],
)
def test_a_search_is_done_again_in_its_precision(
    monkeypatch: pytest.MonkeyPatch, recorded: str, amx: bool, told: str
) -> None:
    monkeypatch.setattr(devices, "multiplies_bfloat16", lambda: amx)
    line = of_search(Recorded({"averaging": 0.98, "precision": recorded}), "digits")  # type: ignore[arg-type]
    assert line == f"detol search --data digits{told}"


@pytest.mark.usefixtures("plain")
def test_a_search_without_averaging_is_done_again_without_it() -> None:
    """Before averaging was part of the default recipe there was no such setting in the record."""
    assert of_search(Recorded({"averaging": 0.98}), "digits") == "detol search --data digits"  # type: ignore[arg-type]
    for recipe in ({}, {"averaging": 0.0}):
        line = of_search(Recorded(recipe), "digits")  # type: ignore[arg-type]
        assert line == "detol search --data digits --set recipe.averaging=0.0"
