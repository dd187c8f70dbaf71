"""Searches that begin with other data sets' results, from settings to the record: real training, small data."""

import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import detol
from detol import defaults, warming, wire
from detol.cli import app, run
from detol.config import settings
from detol.errors import ResultsError, UsageError
from detol.graph.digest import digest
from detol.meta import probe
from detol.result import SearchResult
from detol.results.query import Query
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions

Search = Callable[..., SearchResult]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three data sets of vectors, alike but for their labels and size."""
    folder, found = tmp_path_factory.mktemp("data"), {}
    for place, name in enumerate(("first", "second", "third")):
        rng = np.random.default_rng(place)
        x = rng.normal(size=(160 + 20 * place, 5)).astype(np.float32)
        y = (x[:, 0] + x[:, 1] + 0.2 * place * x[:, 2] > 0).astype(np.int64)
        found[name] = folder / f"{name}.npz"
        np.savez(found[name], x=x, y=y)
        if name == "first":  # the same results, to be sure that the sources are borne out
            found["close"] = folder / "close.npz"
            np.savez(found["close"], x=x * np.float32(1.001), y=y)
    return found


@pytest.fixture
def search(data: dict[str, Path], tmp_path: Path) -> Search:
    def start(name: str, on: str, **options: object) -> SearchResult:
        given: dict[str, object] = {
            "space": "tiny", "epochs": 1, "trials": 6, "executor": "inline", "workers": 1, "tracking": "off",
            "device": "cpu", "db": str(tmp_path / "results.db"), "name": name, "stop": "none",
        }  # fmt: skip
        return detol.search(str(data[on]), **{**given, **options})  # type: ignore[arg-type]

    return start


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[str], list[dict[str, object]]]:
    def sources(name: str) -> list[dict[str, object]]:
        with wire.database(str(tmp_path / "results.db"), create=False) as database:
            return Query(database).warm_sources(name)

    return sources


def outcome(result: SearchResult) -> list[tuple[str, str]]:
    return [(trial.digest, str(trial.candidate.origin)) for trial in result.trials]


Asked = Callable[[str], list[dict[str, object]]]


def test_a_search_begins_with_other_data_sets_and_its_record_names_them(search: Search, asked: Asked) -> None:
    search("a", "first")
    found = search("b", "close")
    (source,) = asked("b")
    assert source["searches"] == ["a"]
    assert source["data_name"] == "first"
    assert source["records"] == 6
    assert 0 < float(str(source["weight"])) <= 1
    assert 0 <= float(str(source["borne_out"])) <= 1
    # The source's best and the model propose at once, where a cold search would draw samples.
    assert [str(trial.candidate.origin) for trial in found.trials[:2]] == ["reference", "warm"]
    assert Origin.GUIDED in {trial.candidate.origin for trial in found.trials[2:4]}
    assert asked("a") == []


def test_of_references_that_sources_hold_the_best_of_each_is_tried(search: Search) -> None:
    space = catalogue.load("tiny")
    before = search("a", "first")
    held = {trial.candidate.note: trial.score for trial in before.trials if trial.candidate.named}
    assert held.keys() == space.references.keys()
    found = search("b", "close")
    named = [trial.candidate.note for trial in found.trials if trial.candidate.named]
    assert named == [max(held, key=held.__getitem__)]
    cold = search("c", "close", warm="off", seed=1)
    assert sum(trial.candidate.named for trial in cold.trials) == len(held)


def test_a_reference_that_was_left_out_counts_as_one_when_it_is_tried_all_the_same(search: Search) -> None:
    space = catalogue.load("tiny")
    names = {digest(space.decode(decisions)): name for name, decisions in space.references.items()}
    before = search("a", "first")
    held = {trial.candidate.note: trial.score for trial in before.trials if trial.candidate.named}
    worse = min(held, key=held.__getitem__)

    class First:
        def __init__(self) -> None:
            self.left = [space.references[worse]]

        def ask(self, count: int) -> list[Candidate]:
            now, self.left = self.left[:count], self.left[count:]
            return [Candidate(decisions, space.decode(decisions), Origin.SAMPLE) for decisions in now]

        def tell(self, trials: object) -> None:
            pass

    found = search("b", "close", strategy=First(), warm="auto", trials=2)
    tried = {names[trial.digest]: trial for trial in found.trials}
    assert tried.keys() == held.keys()
    assert not tried[worse].candidate.named
    assert found.summary["best"]["score"] == max(trial.score for trial in tried.values())
    assert found.summary["gain"] == 0


def test_references_whose_results_on_these_data_are_stored_are_tried(search: Search) -> None:
    search("a", "first")
    search("b", "close", warm="off", trials=2)  # both references, and no more
    found = search("c", "close", seed=3)
    named = [trial for trial in found.trials if trial.candidate.named]
    assert [bool(trial.reused) for trial in named] == [True, True]


def test_a_repeated_warm_search_trains_nothing_though_it_met_a_left_out_reference(search: Search) -> None:
    space = catalogue.load("tiny")
    search("a", "first")
    found = search("b", "close", trials=24)
    again = search("c", "close", trials=24)
    references = {digest(space.decode(decisions)) for decisions in space.references.values()}
    met = {trial.digest for trial in found.trials} & references
    assert len(met) > sum(trial.candidate.named for trial in found.trials)
    assert outcome(again) == outcome(found)
    assert all(trial.reused for trial in again.trials)


def test_with_several_objectives_all_references_are_tried(search: Search) -> None:
    search("a", "first")
    both = ["val_accuracy", "params:min"]
    found = search("b", "close", objective=both, strategy="nsga2", warm="auto")
    assert sum(trial.candidate.named for trial in found.trials) == len(catalogue.load("tiny").references)


def test_what_is_said_of_a_warm_start_names_the_references_that_are_left_out() -> None:
    record = WarmRecord(Decisions(a=1), 0.5)
    one = WarmSource("first", "x1:s", (record, record), 0.5, {"data_name": "letters"})
    assert warming.said([one]) == "warm start from letters (2 records of first, weight 0.50)"
    assert warming.said([one], {"plain", "light"}).endswith(
        "; references that they know better ones than: light, plain"
    )


def test_references_are_known_by_what_sources_tell_of_them() -> None:
    space = catalogue.load("tiny")
    (_, first), (two, second) = space.references.items()
    other = next(each for each in space.enumerate() if each not in (first, second))

    def source(*scores: tuple[Decisions, float]) -> WarmSource:
        return WarmSource("s", "x1:s", tuple(WarmRecord(decisions, score) for decisions, score in scores))

    high, low = source((first, 0.9), (second, 0.8)), source((second, 0.4), (first, 0.3))
    assert warming.known_references(space, [high]) == {two}
    assert warming.known_references(space, [high, low]) == frozenset()
    assert warming.known_references(space, [source((first, 0.9), (other, 0.1))]) == frozenset()
    assert warming.known_references(space, [source((first, 0.9), (second, 0.9))]) == frozenset()
    assert warming.known_references(space, [replace(high, weight=warming.BELIEVED / 2)]) == frozenset()
    assert warming.known_references(space, []) == frozenset()


def test_results_of_the_very_data_set_count_when_they_are_asked_for_alone(search: Search, asked: Asked) -> None:
    search("a", "first")
    search("again", "first", seed=1)
    assert asked("again") == []
    search("named", "first", seed=2, warm=("a",))
    assert [source["searches"] for source in asked("named")] == [["a"]]


def test_results_under_an_earlier_form_of_the_space_are_read_from_their_topologies(
    search: Search, asked: Asked, tmp_path: Path
) -> None:
    """As if the space had got its choice ``skip`` since."""
    search("a", "first")
    with contextlib.closing(sqlite3.connect(tmp_path / "results.db")) as connection, connection:
        for number, text in connection.execute("SELECT number, decisions FROM trials").fetchall():
            earlier = json.dumps({name: option for name, option in json.loads(text).items() if name != "skip"})
            connection.execute("UPDATE trials SET decisions = ? WHERE number = ?", (earlier, number))
    search("b", "close")
    assert [source["records"] for source in asked("b")] == [6]


def test_resume_learns_from_what_it_began_with_and_not_from_what_has_come_since(
    search: Search, asked: Asked, tmp_path: Path
) -> None:
    search("a", "first")
    search("part", "second", trials=4)
    began = asked("part")
    search("more", "third", warm=("off",), trials=8)
    resumed = detol.resume("part", db=str(tmp_path / "results.db"), trials=8)
    assert [{**source, "borne_out": 0} for source in asked("part")] == [{**source, "borne_out": 0} for source in began]
    # The same search in one go, in a database that never saw the third data set.
    other = {"db": str(tmp_path / "other.db")}
    search("a", "first", **other)
    assert outcome(search("whole", "second", trials=8, **other)) == outcome(resumed)


def test_what_it_began_with_makes_it_another_search(search: Search, tmp_path: Path) -> None:
    search("a", "first")
    search("warm", "second")
    search("cold", "second", warm=("off",))
    search("again", "second")
    with wire.database(str(tmp_path / "results.db"), create=False) as database:
        digest = {name: database.open_search(name, lock=False).config_digest for name in ("warm", "cold", "again")}
    assert digest["warm"] == digest["again"] != digest["cold"]


def test_a_twin_is_answered_whole(search: Search) -> None:
    search("a", "first")
    before = search("b", "second")
    after = search("c", "second")
    assert outcome(after) == outcome(before)
    assert all(trial.reused for trial in after.trials)


def test_other_strategies_begin_with_them_when_asked(search: Search, asked: Asked) -> None:
    search("a", "first")
    cold = search("cold", "second", strategy="random")
    assert asked("cold") == []
    warm = search("warm", "second", strategy="random", warm=("auto",), trials=8)
    assert len(asked("warm")) == 1
    assert Origin.WARM in {trial.candidate.origin for trial in warm.trials}
    assert Origin.WARM not in {trial.candidate.origin for trial in cold.trials}


def test_a_recipe_that_did_better_is_taken_over_when_asked(search: Search) -> None:
    usual = search("a", "first", trials=8)
    slow = search("slow", "first", trials=8, options={"recipe": {"learning_rate": 1e-6}})
    assert usual.best is not None
    assert slow.best is not None
    # The default did better there: nothing is taken over, with or without a question.
    assert _rate(search("b", "second", warm=("auto",))) == _rate(usual)
    assert _rate(search("c", "second")) == _rate(usual)
    # Where the usual recipe is the worse one, the better one is taken, but for what a person says.
    worse = {"recipe": {"learning_rate": 1e-6}}
    assert _rate(search("d", "third", warm=("auto",), options=worse)) == 1e-6


def _rate(result: SearchResult) -> float:
    name, db = result.settings.name, result.settings.db
    with wire.database(db, create=False) as database:
        return float(database.open_search(name, lock=False).settings["recipe"]["learning_rate"])


def test_the_better_recipe_of_the_nearest_data_set_is_the_base_of_the_recipe(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    search("fast", "first", trials=8)
    fast = defaults.recipe("features", (5,), 100)
    slow = replace(fast, learning_rate=1e-7)
    monkeypatch.setattr(defaults, "recipe", lambda *_: slow)
    search("slow", "first", trials=8)
    assert _rate(search("b", "second", warm=("auto",))) == fast.learning_rate
    assert _rate(search("c", "second")) == 1e-7  # not asked for: results under the usual recipe stay comparable


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("nope",), "unknown search 'nope'"),
        (("auto", "a"), "--warm is auto, off, or names of searches, not both"),
        (("image",), "they have no scored trial on features data"),
    ],
)
def test_what_cannot_warm_is_said_in_one_line_and_nothing_is_written(
    search: Search, asked: Asked, tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    search("a", "first")
    x = np.random.default_rng(0).integers(0, 255, (80, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "image.npz", x=x, y=np.arange(80) % 2)
    if names == ("image",):
        detol.search(
            str(tmp_path / "image.npz"), space="tiny", epochs=1, trials=2, executor="inline", tracking="off",
            name="image", db=str(tmp_path / "results.db"), stop="none", device="cpu",
        )  # fmt: skip
    with pytest.raises((UsageError, ResultsError), match=message) as caught:
        search("b", "second", warm=names)
    assert "\n" not in str(caught.value)
    with wire.database(str(tmp_path / "results.db"), create=False) as database:
        assert "b" not in database.names()


def test_the_command_line_takes_names_one_by_one_or_joined(
    search: Search, asked: Asked, data: dict[str, Path], tmp_path: Path
) -> None:
    search("a", "first")
    search("c", "third", warm=("off",))
    flags = ["--space", "tiny", "--epochs", "1", "--trials", "3", "--executor", "inline", "--tracking", "off"]
    place = ["--db", str(tmp_path / "results.db"), "--stop", "none", "--device", "cpu"]
    for name, warm in (("one", ["--warm", "a", "--warm", "c"]), ("joined", ["--warm", "a,c"])):
        command = ["search", "--data", str(data["second"]), *flags, *place, "--name", name, *warm, "--json"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert {tuple(source["searches"]) for source in asked(name)} == {("a",), ("c",)}  # type: ignore[arg-type]
    shown = CliRunner().invoke(app, ["status", "one", "--db", str(tmp_path / "results.db"), "--json"])
    assert len(json.loads(shown.stdout)["warm_sources"]) == 2
    told = CliRunner().invoke(app, ["status", "one", "--db", str(tmp_path / "results.db")])
    assert "began with 6 records of a on first" in told.stdout
    assert run(["search", "--data", str(data["second"]), *flags, *place, "--warm", "nope"]) == 2


def test_a_long_enough_search_leaves_a_descriptor_with_probes(
    search: Search, data: dict[str, Path], tmp_path: Path
) -> None:
    search("short", "first", trials=3)
    search("long", "second", trials=warming.LEARNT, warm=("off",))
    with wire.database(str(tmp_path / "results.db"), create=False) as database:
        found = Query(database).sql("SELECT data, body FROM descriptors").dicts()
    (body,) = [json.loads(str(row["body"])) for row in found]
    assert body["name"] == "second"
    assert len(body["probes"]) == len(probe.probes("features"))


def test_a_search_without_a_database_or_with_an_objective_known_before_is_cold(tmp_path: Path) -> None:
    space = catalogue.load("tiny")
    given = settings(None, {}, db=str(tmp_path / "none.db"))
    assert warming.warm(given, None, space, "val_accuracy", Recipe()) == warming.COLD  # type: ignore[arg-type]
    assert warming.warm(given, None, space, "params:min", Recipe()).sources == ()  # type: ignore[arg-type]
    assert not (tmp_path / "none.db").exists()


def test_records_survive_the_record_of_a_search() -> None:
    space = catalogue.load("tiny")
    each = list(space.enumerate())[:3]
    made = WarmSource("a", "x1:a", tuple(WarmRecord(d, -float(n), f"a/{n}") for n, d in enumerate(each)))
    assert warming.from_record(json.loads(json.dumps([made.as_dict()]))) == (made,)


def test_what_data_sets_are_compared_by_can_be_looked_at(data: dict[str, Path]) -> None:
    shown = CliRunner().invoke(app, ["data", "describe", str(data["first"]), "--figures", "--json"])
    found = json.loads(shown.stdout)
    assert found["figures"]["log_outputs"] == pytest.approx(np.log(2))
    assert len(found["probes"]) == len(probe.probes("features"))
    plain = CliRunner().invoke(app, ["data", "describe", str(data["first"]), "--json"])
    assert "figures" not in json.loads(plain.stdout)
