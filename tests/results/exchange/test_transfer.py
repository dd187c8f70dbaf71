"""Results that go out and come in: whole, with their source, each once, conflicts beside each other."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import detol
from detol.errors import ResultsError, UsageError
from detol.results.exchange.select import Selection
from detol.results.exchange.transfer import export, import_file, merge
from detol.results.query import Query
from detol.results.schema import metadata, searches, trials
from detol.results.store import Database
from detol.results.verify import verify
from detol.search.records import Report, State, Trial

MakeTrial = Callable[..., Trial]
KINDS = ("x.json", "x.json.gz", "x.parquet", "folder")
PLAIN = [table for name, table in metadata.tables.items() if name not in ("searches", "trials")]


def rows(where: Path | str) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row that travels, as it stands in a database."""
    with Database(where) as database, database.read() as connection:
        found = {table.name: sorted(map(tuple, connection.execute(sa.select(table))), key=repr) for table in PLAIN}
        kept = [c for c in trials.columns if c.name != "weights"]
        found["trials"] = sorted(map(tuple, connection.execute(sa.select(*kept))), key=repr)
        apart = ("host", "pid", "owner", "heartbeat", "source", "provenance", "settings")
        kept = [c for c in searches.columns if c.name not in apart]
        found["searches"] = sorted(map(tuple, connection.execute(sa.select(*kept))), key=repr)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back_as_it_was(kind: str, exports: dict[str, Path], first_database: Path, tmp_path: Path):
    outcome = import_file(tmp_path / "new.db", exports[kind], "alice")
    assert (outcome.added, outcome.new_searches, outcome.conflicts, outcome.known) == (52, 8, 0, 0)
    assert rows(tmp_path / "new.db") == rows(first_database)
    with Database(tmp_path / "new.db") as database:
        assert verify(database).faults == []
        before, after = (Query(Database(path)).top(limit=99) for path in (first_database, tmp_path / "new.db"))
        assert [replace(row, source="") for row in after] == before
        assert {row.source for row in after} == {"alice"}


@pytest.mark.parametrize("kind", KINDS)
def test_again_changes_nothing(kind: str, exports: dict[str, Path], tmp_path: Path) -> None:
    import_file(tmp_path / "new.db", exports["x.json"], "alice")
    before = rows(tmp_path / "new.db")
    outcome = import_file(tmp_path / "new.db", exports[kind], "somebody else")
    assert (outcome.added, outcome.updated, outcome.known, outcome.searches) == (0, 0, 52, [])
    assert rows(tmp_path / "new.db") == before


def test_into_postgresql_and_out_again(exports: dict[str, Path], postgres: str, first_database: Path, tmp_path: Path):
    import_file(postgres, exports["folder"], "alice")
    assert rows(postgres) == rows(first_database)
    merge(tmp_path / "back.db", postgres)
    assert rows(tmp_path / "back.db") == rows(first_database)
    assert merge(first_database, postgres).added == 0


def test_what_was_exported_comes_home_to_nothing_new(exports: dict[str, Path], given: Path) -> None:
    outcome = import_file(given, exports["x.parquet"], "bob, who had it from me")
    assert (outcome.added, outcome.known) == (0, 52)
    with Database(given) as database, database.read() as connection:
        assert set(connection.scalars(sa.select(searches.c.source))) == {""}


def test_of_a_search_the_trials_that_answered_come_along(first_database: Path, tmp_path: Path) -> None:
    """``same`` was answered by ``first``: its trials alone are no search to follow; the whole of it may come later."""
    with Database(first_database) as database:
        export(database, tmp_path / "x.json", Selection(("same",)))
        export(database, tmp_path / "y.json", Selection(("first",)))
    import_file(tmp_path / "new.db", tmp_path / "x.json", "alice")
    with Database(tmp_path / "new.db") as database:
        assert sorted(database.names()) == ["first", "same"]
        assert len(database.open_search("same", lock=False).steps()) > 0
        assert database.open_search("first", lock=False).steps() == []
        found = Query(database).resolve("same")
        assert Query(database).trained(found).search == "first"
        assert verify(database).faults == []
    outcome = import_file(tmp_path / "new.db", tmp_path / "y.json", "alice")
    assert outcome.searches == ["first"]
    with Database(tmp_path / "new.db") as database:
        assert len(database.open_search("first", lock=False).steps()) > 0
        assert verify(database).faults == []


def test_by_data_set(make_search: Any, make_trial: MakeTrial, tmp_path: Path) -> None:
    database = make_search("a", make_trial(0, 0.5))._database
    make_search("b", make_trial(0, 0.5), data="letters")
    done = export(database, tmp_path / "x.json", Selection(data="letters"))
    assert (done.searches, done.trials, done.reports, done.topologies) == (1, 1, 1, 1)
    document = json.loads((tmp_path / "x.json").read_text())
    assert [row["name"] for row in document["data_sets"]] == ["letters"]
    with pytest.raises(ResultsError, match="unknown data set 'lettres': did you mean letters"):
        export(database, tmp_path / "y.json", Selection(data="lettres"))
    with pytest.raises(ResultsError, match="unknown search"):
        export(database, tmp_path / "y.json", Selection(("c",)))
    assert not (tmp_path / "y.json").exists()


def test_a_name_that_is_taken_gets_the_source(make_search: Any, make_trial: MakeTrial, exports: Any) -> None:
    database = make_search("first", make_trial(0, 0.5))._database
    make_search("first@alice", make_trial(0, 0.5))
    import_file(str(database.url.database), exports["x.json"], "alice")
    assert "first@alice-2" in database.names()
    again = Query(database).show("same/4")
    assert again["reused"].startswith("first@alice-2/")  # the answer is told by its name here
    assert verify(database).faults == []


def test_an_imported_result_is_used_again_and_shown_as_imported(exports: Any, database: Database) -> None:
    import_file(str(database.url.database), exports["x.json"], "alice")
    theirs = database.open_search("first", lock=False)
    (trial,) = [each for each in theirs.trials() if each.number == 4]
    mine = database.create_search("mine", {}, {"digest": theirs.data}, _recipe(theirs))
    known = mine.known(trial.digest, theirs.recipe, theirs.data, 3, trial.candidate.topology)
    assert "first/4" in [each.reused for each in known]
    assert database.open_search("first", lock=False).config_digest == theirs.config_digest
    assert mine.twin(theirs.config_digest) is not None
    with pytest.raises(ResultsError, match="'first' was imported from alice and stays as it is"):
        database.open_search("first")
    with pytest.raises(ResultsError, match="'first' was imported from alice and stays as it is"):
        detol.resume("first", db=str(database.url.database))
    query = Query(database)
    assert query.show("first/4")["source"] == query.status("first").source == "alice"
    assert query.show("first/4")["provenance"]["file"] == "x.json"
    assert (query.stats()["imported"], query.stats()["trials"]) == (52, 52)
    assert [row.source for row in query.front()] == ["alice"] * len(query.front())


def test_a_name_of_a_data_set_means_ours_first(exports: Any, make_search: Any, make_trial: MakeTrial) -> None:
    database = make_search("mine", make_trial(0, 0.5))._database
    import_file(str(database.url.database), exports["x.json"], "alice")
    assert [row.trial for row in Query(database).top(data="digits")] == ["mine/0"]
    theirs = next(digest for digest in database.data_rows() if digest != "x1:digits")
    assert Query(database).top(data=theirs)[0].trial == "first/4"


def test_a_published_result_is_not_exported_as_a_network(tmp_path: Path) -> None:
    from detol.handover import export_trial
    from detol.published import import_table

    (tmp_path / "t.csv").write_text("code,a\n444443,0.5\n")
    db = str(tmp_path / "r.db")
    import_table(db, tmp_path / "t.csv", "nasbench201", ["a"], key="code", recipe="r", source="s", epochs=1)
    with pytest.raises(UsageError, match="t-a/0 is a published result without weights or data here"):
        export_trial("t-a/0", tmp_path / "out", db=db)


def _recipe(store: Any) -> Any:
    from detol.search.recipe import make_recipe

    return make_recipe(store.settings["recipe"])


def test_where_results_had_come_from_is_told_further(exports: Any, tmp_path: Path) -> None:
    import_file(tmp_path / "bob.db", exports["x.json"], "alice")
    merge(tmp_path / "mine.db", tmp_path / "bob.db")
    with Database(tmp_path / "mine.db") as database, database.read() as connection:
        row = connection.execute(sa.select(searches).where(searches.c.name == "first")).mappings().one()
    told = json.loads(row["provenance"])
    assert (row["source"], told["source"], told["provenance"]["file"]) == ("bob", "alice", "x.json")
    assert told["imported"].endswith("Z")


def test_both_went_on_and_both_are_kept(given: Path, tmp_path: Path, make_trial: MakeTrial) -> None:
    """Two copies of one database went on with the same search: other results under the same number."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(given)) as raw, closing(sqlite3.connect(other)) as copy:
        raw.backup(copy)
    for path, score in ((given, 0.5), (other, 0.25)):
        with Database(path) as database:
            store = database.open_search("first")
            store.add(make_trial(50, score))
            store.commit()
            store.close()
    outcome = merge(given, other, "bob")
    assert (outcome.added, outcome.known, outcome.conflicts, outcome.searches) == (1, 52, 1, ["first~1"])
    with Database(given) as database:
        assert [t.score for t in database.open_search("first", lock=False).trials() if t.number == 50] == [0.5]
        (kept,) = database.open_search("first~1", lock=False).trials()
        assert (kept.number, kept.score) == (50, 0.25)
        (row,) = [row for row in Query(database).top(limit=99) if row.digest == kept.digest]
        assert (row.n, row.mean, row.trial) == (2, 0.375, "first/50")
    before = rows(given)
    assert merge(given, other, "carol").added == 0
    assert rows(given) == before


def test_a_search_that_went_on_is_brought_up_to_date(given: Path, tmp_path: Path) -> None:
    name = "odd ends; DROP TABLE trials -- 'ü'"
    import_file(tmp_path / "mine.db", _exported(given, tmp_path), "bob")
    with Database(given) as database:
        store = database.open_search(name)
        running = store.trials()[4]
        report = Report(2, {"val_accuracy": 0.5, "val_loss": 1.0}, 0.5)
        done = replace(running, reports=(*running.reports, report), curve=(*running.curve, 0.5), scores=(0.5,))
        store.record(replace(done, state=State.COMPLETED))
        store.spend(9.0)
        store.finish()
    outcome = import_file(tmp_path / "mine.db", _exported(given, tmp_path), "bob")
    assert (outcome.added, outcome.updated, outcome.known, outcome.searches) == (0, 1, 51, [name])
    with Database(tmp_path / "mine.db") as database:
        store = database.open_search(name, lock=False)
        assert (store.trials()[4].score, store.consumed, store.state) == (0.5, 12.5, "finished")
        assert verify(database).faults == []


def _exported(where: Path, folder: Path) -> Path:
    with Database(where) as database:
        export(database, folder / "out.parquet")
    return folder / "out.parquet"


def test_a_database_of_an_older_schema_is_merged_and_left_as_it_is(first_database: Path, tmp_path: Path) -> None:
    import gzip

    old = tmp_path / "old.db"
    dump = Path(__file__).parents[1] / "data" / "schema_0001.sql.gz"
    with closing(sqlite3.connect(old)) as raw:
        raw.executescript(gzip.decompress(dump.read_bytes()).decode())
        raw.commit()
    before = old.read_bytes()
    assert merge(tmp_path / "new.db", old, "me, last year").added == 52
    assert old.read_bytes() == before
    assert rows(tmp_path / "new.db") == rows(first_database)


def test_the_one_parquet_file_is_a_table_of_trials(exports: dict[str, Path]) -> None:
    frame = pd.read_parquet(exports["x.parquet"])
    assert len(frame) == 52
    best = frame[(frame.search_name == "first") & (frame.number == 4)].iloc[0]
    assert (best.score, best.params, best.data_name, best.space) == (0.9791666666666666, 9098, "digits", "tiny")
    assert [report["epoch"] for report in best.reports] == [1, 2, 3]
    assert json.loads(best.body)["format"] == "detol-topology"


def test_an_export_holds_no_addresses(database: Database, make_trial: MakeTrial, tmp_path: Path) -> None:
    from detol.search.recipe import Recipe

    secret = {"db": "postgresql://me:s3cret@host/x", "tracking": "http://me:s3cret@host", "ray": "ray://s3cret"}
    store = database.create_search("a", {**secret, "settings": secret}, {"digest": "x1:d"}, Recipe())
    store.add(make_trial(0, 0.5))
    store.commit()
    export(database, tmp_path / "x.json")
    assert "s3cret" not in (tmp_path / "x.json").read_text()


def test_an_export_is_replaced_and_something_else_is_not(exports: Any, given: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with Database(given) as database:
        for _ in range(2):
            export(database, tmp_path / "out")
        with pytest.raises(UsageError, match="something else in it"):
            export(database, tmp_path / "mine")
        with pytest.raises(UsageError, match=r"FILE.json, FILE.json.gz, FILE.parquet"):
            export(database, tmp_path / "x.csv")
        with pytest.raises(UsageError, match="cannot write"):
            export(database, Path("/proc/detol/x.json"))
    assert sorted(path.name for path in tmp_path.iterdir() if "given" not in path.name) == ["mine", "out"]
    assert import_file(tmp_path / "new.db", tmp_path / "out", "a").added == 52


parts = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.25, 0.5, 0.75])), min_size=1, max_size=4), max_size=4
)


def test_in_any_order_any_number_of_times(tmp_path: Path, empty_database: Path, make_trial: MakeTrial) -> None:
    """Copies of one search that went on differently: whatever is imported twice adds nothing, and nothing is lost."""
    import shutil

    seed = tmp_path / "seed.db"
    shutil.copy(empty_database, seed)
    with Database(seed) as database:
        from detol.search.recipe import Recipe

        described = {"digest": "x1:digits", "name": "digits", "shape": [1, 8, 8], "outputs": 10}
        database.create_search("a", {"objectives": ["val_accuracy"]}, described, Recipe()).close()

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(parts, st.randoms())
    def check(drawn: list[list[tuple[int, float]]], order: Any) -> None:
        files = []
        for place, part in enumerate(drawn):
            path = tmp_path / f"part-{place}.db"
            path.unlink(missing_ok=True)
            shutil.copy(seed, path)
            with Database(path) as database:
                store = database.open_search("a")
                for number, score in dict(part).items():
                    store.add(make_trial(number, score))
                store.close() if not part else store.finish()
                export(database, tmp_path / f"part-{place}.json")
            files.append(tmp_path / f"part-{place}.json")
        mine = tmp_path / "mine.db"
        for path in tmp_path.glob("mine.db*"):
            path.unlink()
        shutil.copy(empty_database, mine)
        for path in [*files, *files]:
            import_file(mine, path, "x")
        before = rows(mine)
        order.shuffle(files)
        for path in files:
            assert import_file(mine, path, "y").added == 0
        assert rows(mine) == before
        expected = sorted({pair for part in drawn for pair in dict(part).items()})
        with Database(mine) as database:
            found = [
                (t.number, t.score)
                for name in database.names()
                for t in database.open_search(name, lock=False).trials()
            ]
            assert sorted(found) == expected
            assert verify(database).faults == []

    check()
