"""Trials survive the way into the database and back."""

import json
import math
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results import rows
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.spaces.decisions import Decisions

floats = st.floats()  # not a number and infinities included
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
anything = st.text(max_size=8)  # NUL and lone surrogates included: JSON holds them
options = st.one_of(st.booleans(), st.integers(-(10**30), 10**30), floats, anything)
facts = st.dictionaries(anything, st.one_of(anything, floats, st.integers(-(10**20), 10**20)), max_size=3)


@st.composite
def trials(draw: st.DrawFn) -> Trial:
    epochs = draw(st.lists(st.integers(1, 40), unique=True, max_size=4).map(sorted))
    widths = draw(st.lists(st.integers(1, 64), max_size=3))
    return Trial(
        number=draw(st.integers(0, 2**31 - 1)),
        candidate=Candidate(
            Decisions(draw(st.dictionaries(anything, options, max_size=4))),
            chain(*(op("conv", channels=width) for width in widths)),
            draw(st.sampled_from(Origin)),
            tuple(draw(st.lists(st.integers(0, 99), max_size=2))),
            draw(words),
        ),
        state=draw(st.sampled_from(State)),
        epochs=draw(st.integers(0, 1000)),
        seed=draw(st.integers(0, 2**63 - 1)),
        width=draw(st.integers(1, 64)),
        reports=tuple(Report(n, draw(st.dictionaries(anything, floats, max_size=3)), draw(floats)) for n in epochs),
        curve=tuple(draw(floats) for _ in epochs),
        scores=draw(st.none() | st.lists(floats, max_size=3).map(tuple)),
        reason=draw(words),
        attempt=draw(st.integers(1, 2)),
        seconds=draw(floats),
        reused=draw(words),
        weights=draw(words),
        extra=draw(facts),
    )


def shape(value: object) -> object:
    """Make values comparable: not-a-number equals itself, and 1, 1.0 and True differ."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else repr(value + 0.0))  # SQLite keeps no -0.0
    if isinstance(value, Trial | Report | Candidate):
        fields = type(value).__dataclass_fields__
        return tuple(shape(getattr(value, name)) for name in fields)
    if isinstance(value, tuple):
        return tuple(shape(item) for item in value)
    if hasattr(value, "items"):
        return tuple((key, shape(item)) for key, item in value.items())
    return (type(value).__name__, value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trial=trials(), later=trials())
def test_a_trial_is_stored_without_loss(database: Database, trial: Trial, later: Trial) -> None:
    name = f"s{len(database.names())}"
    store = database.create_search(name, {}, {"digest": "x1:any"}, Recipe())
    store.add(trial)
    store.commit()
    (found,) = database.open_search(name, lock=False).trials()
    assert shape(found) == shape(trial)
    changed = Trial(trial.number, trial.candidate, **{f: getattr(later, f) for f in CHANGING})
    store.record(changed)
    store.commit()
    store.close()
    (found,) = database.open_search(name, lock=False).trials()
    assert shape(found) == shape(changed)


CHANGING = [name for name in Trial.__dataclass_fields__ if name not in ("number", "candidate")]


@given(st.recursive(st.none() | options, lambda x: st.lists(x, max_size=3) | st.dictionaries(anything, x, max_size=3)))
@settings(max_examples=60, deadline=None)
def test_json_holds_what_is_not_finite(value: object) -> None:
    text = rows.to_text(value)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    found = rows.from_text(text)
    assert json.dumps(found) == json.dumps(value)  # Python's own JSON writes NaN and Infinity


def test_numbers_of_numpy_paths_and_tuples_become_plain() -> None:
    value = {"a": np.float32(0.5), "b": np.int64(3), "c": PurePosixPath("x/y"), "d": (1, 2), "e": np.float64("nan")}
    assert rows.to_text(value | {"e": 0}) == '{"a": 0.5, "b": 3, "c": "x/y", "d": [1, 2], "e": 0}'
    assert math.isnan(rows.from_text(rows.to_text(value))["e"])
    assert math.isinf(rows.from_text(rows.to_text([np.float32("inf")]))[0])


def test_what_json_cannot_hold_is_named() -> None:
    with pytest.raises(TypeError, match="got object"):
        rows.to_text({"a": object()})


def test_text_that_no_database_holds_is_escaped(database: Database) -> None:
    store = database.create_search("a", {}, {"digest": "x1:any"}, Recipe())
    candidate = Candidate(Decisions(), chain(), Origin.SAMPLE)
    store.add(Trial(0, candidate, State.FAILED, epochs=1, reason="no file b\udcff\x00.png"))
    store.commit()
    (found,) = store.trials()
    assert found.reason == "no file b\\udcff\\x00.png"
