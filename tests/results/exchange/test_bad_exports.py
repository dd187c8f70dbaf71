"""Exports that are damaged or lie: one clear line, exit code 2, nothing written, no database made."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from detol import cli
from detol.errors import ResultsError, UsageError
from detol.results.exchange.transfer import export, import_file, merge
from detol.results.query import Query
from detol.results.store import Database
from detol.results.verify import verify

Edit = Callable[[Callable[[Any], object]], Path]


def refused(path: Path, tmp_path: Path) -> str:
    """Import into a database that is not there and into one that is; return the line."""
    with pytest.raises(ResultsError) as caught:
        import_file(tmp_path / "none" / "new.db", path, "alice")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "none").exists()
    there = tmp_path / "there.db"
    Database(there).close()
    with pytest.raises(ResultsError) as again:
        import_file(there, path, "alice")
    assert str(again.value) == str(caught.value)
    with Database(there) as database:
        assert database.names() == []
        assert database.data_rows() == {}
    return str(caught.value)


@pytest.mark.parametrize("kind", ["x.json", "x.json.gz", "x.parquet"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_off(kind: str, share: float, copied: Callable[[str], Path], tmp_path: Path) -> None:
    path = copied(kind)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "it is damaged or cut off, export it again" in refused(path, tmp_path)


@pytest.mark.parametrize("name", ["reports", "trials", "topologies", "searches"])
def test_a_folder_with_a_damaged_file(name: str, copied: Callable[[str], Path], tmp_path: Path) -> None:
    path = copied("folder")
    file = path / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:-10])
    assert f"{name}.parquet is not the file that was exported" in refused(path, tmp_path)
    file.unlink()
    assert f"lacks {name}.parquet" in refused(path, tmp_path)


def test_a_file_of_the_folder_that_was_written_by_another_hand(copied: Callable[[str], Path], tmp_path: Path) -> None:
    import hashlib

    path = copied("folder")
    file = path / "trials.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["score"]), file)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["trials.parquet"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert "has no column 'score'" in refused(path, tmp_path)


def test_a_foreign_parquet_file(tmp_path: Path, exports: dict[str, Path]) -> None:
    table = pq.read_table(exports["x.parquet"]).replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "foreign.parquet")
    assert "is no export of results" in refused(tmp_path / "foreign.parquet", tmp_path)


def test_what_is_no_export(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": "something else"}')
    assert "is no export of results" in refused(tmp_path / "a.json", tmp_path)
    (tmp_path / "a.json").write_text("[1, 2]")
    assert "is no export of results" in refused(tmp_path / "a.json", tmp_path)
    (tmp_path / "folder").mkdir()
    assert "holds manifest.json" in refused(tmp_path / "folder", tmp_path)
    assert "there is no file or folder" in refused(tmp_path / "nowhere.json", tmp_path)
    with pytest.raises(UsageError, match=r"FILE.json, FILE.json.gz, FILE.parquet"):
        import_file(tmp_path / "new.db", Path(__file__), "alice")


def test_a_later_version(edited: Edit, tmp_path: Path) -> None:
    line = refused(edited(lambda document: document.update(version=2, detol="9.0")), tmp_path)
    assert "version 2 of the format, this detol reads 1: update detol (it was written by 9.0)" in line


def trial(document: Any) -> Any:
    """A completed trial of three epochs."""
    search = next(row for row in document["searches"] if row["name"] == "first")
    return next(row for row in search["trials"] if row["number"] == 4)


def scored(document: Any, value: float) -> None:
    """Let a trial say everywhere that it reached a score."""
    row = trial(document)
    row["score"], row["scores"] = value, [value]
    row["reports"][-1]["score"] = row["reports"][-1]["metrics"]["val_accuracy"] = value


def first(document: Any) -> Any:
    return document["searches"][0]


def broken_operation(document: Any) -> None:
    body = document["topologies"][0]["body"]
    node = next(node for node in body["nodes"].values() if node.get("op") not in ("input", "output", None))
    node["op"] = "convolve"


def data(document: Any) -> Any:
    return document["data_sets"][0]


def described(document: Any, **facts: Any) -> None:
    data(document)["description"].update(facts)


def huge_share(document: Any) -> None:
    nodes = [node for form in document["topologies"] for node in form["body"]["nodes"].values()]
    next(node["with"] for node in nodes if "dropout" in node.get("with", ()))["dropout"] = 10**400


LIES: dict[str, tuple[Callable[[Any], object], str]] = {
    "accuracy above 1": (lambda d: scored(d, 1.7), r"trial first/4: val_accuracy of epoch 3 is in \[0, 1\], got 1.7"),
    "accuracy below 0": (lambda d: scored(d, -0.2), r"in \[0, 1\], got -0.2"),
    "not finite": (lambda d: trial(d).update(scores=[{"$float": "inf"}]), "scores are finite numbers"),
    "no score": (lambda d: trial(d).update(score=None, scores=None), "a completed trial has a score"),
    "another score than its curve": (lambda d: trial(d).update(score=0.5, scores=[0.5]), "that of its last report"),
    "another score than its metrics": (
        lambda d: trial(d)["reports"][0]["metrics"].update(val_accuracy=0.25),
        "the score of epoch 1 is .*, its val_accuracy is 0.25",
    ),
    "loss below 0": (lambda d: trial(d)["reports"][0]["metrics"].update(val_log_loss=-1), "at least 0, got -1"),
    "metric that is text": (lambda d: trial(d)["reports"][0]["metrics"].update(val_log_loss="x"), "is a number"),
    "unknown operation": (broken_operation, "unknown operation 'convolve'"),
    "another digest": (
        lambda d: d["topologies"][0].update(digest="d1:" + "0" * 40),
        "its body has digest d1:",
    ),
    "another key": (lambda d: d["topologies"][0].update(key="0" * 32), "its body has key"),
    "another network's digest": (lambda d: trial(d).update(digest="d1:" + "0" * 40), "its topology has digest"),
    "another recipe": (lambda d: d["recipes"][0]["settings"].update(learning_rate=9.0), "its settings have digest r1:"),
    "a recipe with another setting": (lambda d: d["recipes"][0]["settings"].update(x=9.0), "none of a recipe"),
    "epochs that do not rise": (lambda d: trial(d)["reports"][1].update(epoch=1), "its epochs rise from 1"),
    "more epochs than its schedule": (lambda d: trial(d).update(epochs=2), "it trained 3 of 2 epochs"),
    "a report less": (lambda d: trial(d)["reports"].pop(), "its last report is of epoch 2, its epoch is 3"),
    "a state that is none": (lambda d: trial(d).update(state="won"), "a state is one of .*, got 'won'"),
    "a score of a failure": (lambda d: trial(d).update(state="failed"), "a trial that is failed has no score"),
    "an origin that is none": (lambda d: trial(d).update(origin="magic"), "an origin is one of"),
    "decisions that are none": (lambda d: trial(d).update(decisions=[1]), "its decisions are none"),
    "a number twice": (lambda d: first(d)["trials"].append(first(d)["trials"][0]), "two of that number"),
    "a search twice": (lambda d: d["searches"].append(first(d)), "two searches have the same name"),
    "seconds below 0": (lambda d: trial(d).update(seconds=-1.0), "it took seconds >= 0"),
    "text for a number": (lambda d: trial(d).update(seed="7"), "trials.seed is of type int, got '7'"),
    "a huge number": (lambda d: trial(d).update(seed=2**70), "trials.seed is of type int"),
    "no digest": (lambda d: trial(d).pop("digest"), "a row of trials has no 'digest'"),
    "an answer that is not there": (lambda d: trial(d).update(reused="nowhere/1"), "which is not in the file"),
    "data that are not there": (lambda d: d.update(data_sets=[]), "its data 'x1:.*' is not in the file"),
    "a name with a slash": (lambda d: first(d).update(name="../../x"), "no slash"),
    "a name with a line break": (lambda d: first(d).update(name="a\nb"), "printable characters"),
    "no uid": (lambda d: first(d).update(uid=""), "a search has a uid"),
    "an objective that is none": (lambda d: first(d).update(objective="loss:down"), "METRIC:min or METRIC:max"),
    "rows that are none": (lambda d: d.update(topologies=[7]), "a row of topologies is an object"),
    "a list that is none": (lambda d: first(d).update(trials=7), "trials is a list"),
    "a provenance that is none": (lambda d: first(d).update(provenance=[1]), "provenance is no JSON dict"),
    "steps that are none": (lambda d: first(d)["steps"][0].update(told=["x"]), "a step asks for >= 0 candidates"),
    "costs below 0": (lambda d: trial(d).update(params=-5), "params is at least 0, got -5"),
    "a NUL in a text": (lambda d: trial(d).update(note="a\x00b"), "trials.note holds characters that no text has"),
    "half a character": (lambda d: trial(d).update(reason="\ud800"), "trials.reason holds characters"),
    "parents that are none": (lambda d: trial(d).update(parents=["x"]), "parents is a list of numbers"),
    "a parent that no database holds": (lambda d: trial(d).update(parents=[10**25]), "parents is a list of numbers"),
    "a shape of text": (lambda d: data(d).update(shape=["x", {}]), "shape is a list of whole numbers >= 1, got"),
    "no outputs": (lambda d: data(d).update(outputs=0), "outputs is a whole number >= 1, got 0"),
    "a shape of zeros": (lambda d: data(d).update(shape=[0]), "shape is a list of whole numbers >= 1, got"),
    "splits that are none": (lambda d: described(d, splits="no"), "splits of its description is .* got 'no'"),
    "splits that are nothing": (lambda d: described(d, splits=None), "splits of its description is .* got None"),
    "splits below 0": (lambda d: described(d, splits={"train": -1}), "splits of its description is an object of whole"),
    "splits that are huge": (lambda d: described(d, splits={"train": 10**400}), "splits of its description is an"),
    "classes that are none": (lambda d: described(d, classes=[1]), r"classes of its description is .* got \[1\]"),
    "a described shape": (lambda d: described(d, shape="8x8"), "shape of its description is a list"),
    "a described task": (lambda d: described(d, task={}), "task of its description is text"),
    "a target that is none": (lambda d: described(d, target={"mean": "x"}), "target of its description is an object"),
    "a float that is none": (lambda d: described(d, balance={"$float": 10**400}), "description is no JSON dict"),
    "a score beyond all floats": (lambda d: trial(d).update(score=10**400), "trials.score is of type float, got 1000"),
    "scores beyond all floats": (lambda d: trial(d).update(scores=[10**400]), "scores are finite numbers, got"),
    "a metric beyond all floats": (
        lambda d: trial(d)["reports"][0]["metrics"].update(val_accuracy=10**400),
        "val_accuracy of epoch 1 is a number that a float holds, got 1000",
    ),
    "an objective's metric that is text": (
        lambda d: trial(d)["reports"][0]["metrics"].update(val_accuracy="x"),
        "val_accuracy of epoch 1 is a number, got 'x'",
    ),
    "a share beyond all floats": (huge_share, "must be a share in .* got a whole number of 1329 bits"),
    "a recipe beyond all floats": (lambda d: d["recipes"][0]["settings"].update(clip=10**400), "recipe"),
    "settings in settings": (lambda d: first(d)["settings"].update(settings="x"), "'settings' of its settings is an"),
    "a recipe in settings": (lambda d: first(d)["settings"].update(recipe=3), "'recipe' of its settings is an object"),
    "hours that are none": (lambda d: first(d)["settings"].update(hours="x"), "hours of its settings is a number"),
    "options without keys": (lambda d: first(d).update(options={"strategy": 3}), "'strategy' of its options is an"),
    "options in settings": (
        lambda d: first(d)["settings"]["settings"].update(options={"strategy": 3}),
        "'strategy' of its options is an object, got 3",
    ),
    "objectives without a metric": (lambda d: first(d).update(objectives=["", ""]), "objectives are METRIC, .* got ''"),
    "objectives that are none": (
        lambda d: first(d).update(objectives=["a:up"]),
        "objectives are METRIC, .* got 'a:up'",
    ),
    "objectives in settings": (
        lambda d: first(d)["settings"].update(objectives=[3]),
        "objectives of its settings are METRIC, .* got 3",
    ),
    "steps of a huge trial": (lambda d: first(d)["steps"][0].update(told=[10**25]), "a step asks for >= 0 candidates"),
    "steps of a huge epoch": (lambda d: first(d)["steps"][0].update(told=[[1, 2**63]]), "a step asks for"),
    "steps of pairs of three": (lambda d: first(d)["steps"][0].update(told=[[1, 2, 3]]), "a step asks for"),
    **{
        f"{name} that moves the cursor": (
            lambda d, name=name: first(d).update({name: "a\x1b[2J"}),
            rf"{name} has printable characters alone, got '\\x1b' in",
        )
        for name in ("space", "strategy", "stopper", "seed", "created", "ended")
    },
    **{
        f"{name} of two lines": (
            lambda d, name=name: trial(d).update({name: "a\nb"}),
            rf"{name} has printable characters alone, got '\\n' in",
        )
        for name in ("reason", "note", "inherited", "created", "ended")
    },
    "a data set that moves the cursor": (lambda d: data(d).update(name="\x1b[2J"), "name has printable characters"),
    "a metric that moves the cursor": (
        lambda d: trial(d)["reports"][0]["metrics"].update({"a\x1b[31m": 5}),
        r"a metric of epoch 1 has a printable name, got 'a\\x1b\[31m'",
    ),
    "a schema to come": (lambda d: d.update(schema="0099"), "has schema '0099', this detol knows up to 0002: update"),
    "a schema that is none": (lambda d: d.update(schema=[]), r"has schema '\[\]', this detol knows up to 0002"),
    "no schema": (lambda d: d.pop("schema"), "has schema 'None', this detol knows up to 0002"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_export_that_lies(lie: str, edited: Edit, tmp_path: Path) -> None:
    change, pattern = LIES[lie]
    line = refused(edited(change), tmp_path)
    import re

    assert re.search(pattern, line), line


def test_a_number_that_json_has_not(exports: dict[str, Path], tmp_path: Path) -> None:
    text = exports["x.json"].read_text().replace('"consumed": 3.5', '"consumed": NaN')
    (tmp_path / "nan.json").write_text(text)
    assert "NaN is no JSON number" in refused(tmp_path / "nan.json", tmp_path)


def test_a_score_that_only_parquet_can_hold(copied: Callable[[str], Path], tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa

    path = copied("x.parquet")
    table = pq.read_table(path)
    place = table.schema.get_field_index("score")
    values = np.where(np.arange(len(table)) == 3, np.inf, table.column("score").to_numpy(zero_copy_only=False))
    pq.write_table(table.set_column(place, "score", pa.array(values, pa.float64(), from_pandas=True)), path)
    assert "a score is finite, got inf" in refused(path, tmp_path)


def test_a_number_that_is_larger_than_a_float(exports: dict[str, Path], tmp_path: Path) -> None:
    text = exports["x.json"].read_text().replace('"consumed": 3.5', '"consumed": 1e999')
    (tmp_path / "large.json").write_text(text)
    assert "is no number that a float holds" in refused(tmp_path / "large.json", tmp_path)


def test_the_folder_says_its_schema_as_well(copied: Callable[[str], Path], tmp_path: Path) -> None:
    path = copied("folder") / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": "0099"}))
    assert "has schema '0099'" in refused(path.parent, tmp_path)


def test_what_an_error_said_here_is_sound_and_travels_as_escapes(given: Path, tmp_path: Path) -> None:
    import sqlalchemy as sa

    odd = "ValueError: \x1b[31mboom\x1b[0m"
    with Database(given) as database:
        for table, name in (("trials", "reason"), ("searches", "space"), ("data_sets", "name")):
            statement = sa.text(f"UPDATE {table} SET {name} = :odd")
            database.write(lambda connection, said=statement: connection.execute(said, {"odd": odd}))
        assert verify(database).faults == []
        for kind in ("x.json", "x.parquet"):
            export(database, tmp_path / kind)
            import_file(tmp_path / f"{kind}.db", tmp_path / kind, "alice")
    merge(tmp_path / "merged.db", given, "alice")
    for where in ("x.json.db", "x.parquet.db", "merged.db"):
        with Database(tmp_path / where) as database:
            (reason,) = {trial.reason for trial in database.open_search("first", lock=False).trials()}
            assert reason == r"ValueError: \x1b[31mboom\x1b[0m"
            assert verify(database).faults == []


def test_verify_finds_what_came_in_before_it_was_refused(exports: dict[str, Path], tmp_path: Path) -> None:
    import sqlalchemy as sa

    import_file(tmp_path / "new.db", exports["x.json"], "alice")
    with Database(tmp_path / "new.db") as database:
        for statement in (
            "UPDATE trials SET reason = 'a' || char(27) WHERE number = 4",
            "UPDATE data_sets SET shape = '[\"x\", {}]'",
            "UPDATE searches SET options = '{\"strategy\": 3}' WHERE name = 'cut'",
        ):
            database.write(lambda connection, said=statement: connection.execute(sa.text(said)))
        found = verify(database).faults
    assert {fault.where for fault in found} >= {"first/4", "search 'cut'"}
    assert any("shape is a list of whole numbers" in fault.what for fault in found)


@pytest.mark.parametrize("who", ["", "  ", "a/b", "a\nb", "x" * 101])
def test_a_source_that_is_none(who: str, exports: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a source is who the results are from"):
        import_file(tmp_path / "new.db", exports["x.json"], who)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("name", ["x'; DROP TABLE trials; --", 'a"b', "%s{}\\", "Robert'); DELETE FROM searches;--"])
def test_sql_in_a_name_is_a_name(name: str, edited: Edit, tmp_path: Path) -> None:
    def rename(document: Any) -> None:
        row = next(row for row in document["searches"] if row["name"] == "cut")
        row["name"] = name

    for _ in range(2):
        import_file(tmp_path / "new.db", edited(rename), name)
    with Database(tmp_path / "new.db") as database:
        assert len(database.open_search(name, lock=False).trials()) == 4
        assert [row.source for row in Query(database).top(search=name)] == [name] * 4
        export(database, tmp_path / "again.json")
        assert verify(database).faults == []


def test_merging_what_is_no_results_database(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    (tmp_path / "text.db").write_text("x1,x2\n" * 500)
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as raw:
        raw.execute("CREATE TABLE runs (id)")
    Database(tmp_path / "newer.db").close()
    with closing(sqlite3.connect(tmp_path / "newer.db")) as raw:
        raw.execute("UPDATE detol_version SET version_num = '9999'")
        raw.commit()
    lines = {
        "text.db": "file is not a database",
        "mlflow.db": "something else",
        "newer.db": "has schema 9999, this detol knows up to",
        "nowhere.db": "there is no results database",
        "postgresql+psycopg://me:s3cret@127.0.0.1:1/x": "cannot open the results database",
    }
    for other, line in lines.items():
        where = other if "://" in other else tmp_path / other
        with pytest.raises(ResultsError, match=line) as caught:
            merge(tmp_path / "new.db", where, "x")
        assert "s3cret" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "new.db").exists()


def test_the_command_line_says_one_line(
    edited: Edit, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = edited(lambda d: scored(d, 1.7))
    url = "postgresql+psycopg://me:s3cret@127.0.0.1:1/x?password=s3cret2"
    for arguments in (
        ["import", str(path), "--source", "alice", "--db", "new.db"],
        ["import", str(path), "--source", "alice", "--db", url],
        ["merge", url, "--db", "new.db"],
        ["export", "--to", "x.json", "--db", "new.db"],
        ["export", "--to", "x.json", "--db", url],
        ["verify", "--db", "new.db"],
    ):
        assert cli.run(["results", *arguments]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1
        assert "s3cret" not in shown.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edited.json"]


def test_a_compressed_export_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(b"not JSON"))
    assert "is no JSON document" in refused(tmp_path / "x.json.gz", tmp_path)
