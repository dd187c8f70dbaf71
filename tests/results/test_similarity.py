"""Stored embeddings and similar topologies, on a database of real records."""

import json

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from detol.cli import app
from detol.embedding.embedders import Analytical, embedder
from detol.errors import ResultsError, UsageError
from detol.graph.digest import digest
from detol.results import embeddings
from detol.results.query import Query
from detol.results.schema import embeddings as table
from detol.results.similarity import nearest, similar
from detol.results.store import Database
from detol.search.recipe import Recipe
from detol.search.records import Candidate, Origin, Report, State, Trial
from detol.search_spaces import nasbench201
from detol.spaces import catalogue

SPACE = catalogue.load("nasbench201")
CODES = ("303103", "303003", "303113", "444444", "111111", "333333", "033000", "303303")
DATA = {"digest": "data", "name": "digits", "kind": "image", "shape": [1, 8, 8], "outputs": 10}


class Versioned(Analytical):
    """The analytical embedder under another version; counts what it embeds."""

    def __init__(self, version):
        self.version, self.embedded = version, 0

    def embed(self, topologies):
        self.embedded += len(topologies)
        return super().embed(topologies)


def fill(database, name="one", data=DATA, codes=CODES, scores=None, epochs=1, recipe=None):
    settings = {"space": "nasbench201", "objectives": ["val_accuracy"], "epochs": epochs}
    store = database.create_search(name, settings, data, recipe or Recipe())
    for number, code in enumerate(codes):
        decisions = nasbench201.decisions(code)
        candidate = Candidate(decisions, SPACE.decode(decisions), Origin.SAMPLE)
        score = number / 10 if scores is None else scores[number]
        store.add(Trial(number, candidate, State.RUNNING, epochs))
        done = (score,) if score is not None else None
        state = State.COMPLETED if score is not None else State.FAILED
        reports = tuple(Report(n, {"val_accuracy": score}) for n in range(1, epochs + 1)) if done else ()
        curve = tuple(score for _ in reports)
        store.record(Trial(number, candidate, state, epochs, reports=reports, curve=curve, scores=done))
    store.commit()
    store.close()


@pytest.fixture
def database(tmp_path):
    with Database(tmp_path / "results.db") as made:
        fill(made)
        yield made


def digest_of(code):
    return digest(SPACE.decode(nasbench201.decisions(code)))


def test_nearest_are_those_of_the_largest_cosine(database):
    rows = similar(database, digest_of("303103"), Analytical(), limit=3)
    vectors = {code: Analytical().embed([SPACE.decode(nasbench201.decisions(code))])[0] for code in CODES}
    cosines = {
        code: float(row @ vectors["303103"] / np.linalg.norm(row) / np.linalg.norm(vectors["303103"]))
        for code, row in vectors.items()
        if code != "303103"
    }
    expected = sorted(cosines, key=cosines.__getitem__, reverse=True)[:3]
    assert [row.digest for row in rows] == [digest_of(code) for code in expected]
    assert [row.similarity for row in rows] == pytest.approx([cosines[code] for code in expected], abs=1e-5)
    assert [row.value for row in rows] == [CODES.index(code) / 10 for code in expected]
    assert {(row.metric, row.n, row.data, row.space) for row in rows} == {("val_accuracy", 1, "digits", "nasbench201")}


def test_a_topology_has_a_row_for_each_data_set_and_its_trainings_count(database):
    fill(database, "again", codes=CODES[:2], scores=(0.5, 0.7))
    fill(database, "other", data={**DATA, "digest": "more", "name": "letters"}, codes=CODES[1:2], scores=(0.9,))
    rows = [row for row in similar(database, "one/0", Analytical()) if row.digest == digest_of("303003")]
    found = {row.data: row for row in rows}
    assert (found["digits"].value, found["digits"].n, found["digits"].trial) == (0.7, 2, "again/1")
    assert found["digits"].mean == pytest.approx(0.4)
    assert found["letters"].value == 0.9
    alone = similar(database, "one/0", Analytical(), data="letters")
    assert [(row.digest, row.data) for row in alone] == [(digest_of("303003"), "letters")]


def test_trainings_of_other_lengths_or_recipes_are_not_averaged(database):
    fill(database, "longer", codes=CODES[1:2], scores=(0.9,), epochs=2)
    fill(database, "faster", codes=CODES[1:2], scores=(0.8,), epochs=2, recipe=Recipe(learning_rate=0.3))
    (row,) = [row for row in similar(database, "one/0", Analytical()) if row.digest == digest_of("303003")]
    assert (row.trial, row.value, row.mean, row.n) == ("longer/0", 0.9, pytest.approx(0.9), 1)


def test_what_failed_has_no_row(tmp_path):
    with Database(tmp_path / "some.db") as made:
        fill(made, scores=[0.1, None, 0.3, None, None, 0.2, None, 0.4])
        found = {row.digest for row in similar(made, "one/1", Analytical())}
    assert found == {digest_of(CODES[place]) for place in (0, 2, 5, 7)}


def stored(database):
    with database.read() as connection:
        return connection.execute(sa.select(table.c.digest, table.c.encoder, table.c.version)).all()


def test_vectors_are_computed_once_and_again_when_the_version_changes(database):
    digests = [digest_of(code) for code in CODES]
    one = Versioned("v1")
    first = embeddings.vectors(database, digests, one)
    again = embeddings.vectors(database, digests, one)
    assert one.embedded == len(set(digests)) == len(stored(database))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    two = Versioned("v2")
    embeddings.vectors(database, digests[:3], two)
    assert two.embedded == 3
    versions = {row.digest: row.version for row in stored(database)}
    assert {versions[name] for name in digests[:3]} == {"v2"}
    assert {versions[name] for name in set(digests) - set(digests[:3])} == {"v1"}


def test_embedders_do_not_share_vectors(database):
    class Other(Versioned):
        name = "other"

    embeddings.vectors(database, [digest_of("303103")], Versioned("v1"))
    embeddings.vectors(database, [digest_of("303103")], Other("v1"))
    assert {row.encoder for row in stored(database)} == {"features", "other"}


def test_a_database_that_cannot_be_written_to_still_answers(database, monkeypatch):
    def refuse(change):
        raise ResultsError("read only")

    monkeypatch.setattr(database, "write", refuse)
    assert len(similar(database, "one/0", Analytical())) == len({digest_of(code) for code in CODES}) - 1
    assert not stored(database)


def test_nearest_breaks_ties_by_name_and_survives_zeros():
    one = np.array([1.0, 0.0], np.float32)
    others = {"b": one, "a": one * 2, "c": np.zeros(2, np.float32), "d": -one}
    assert nearest(one, others, 9) == [("a", 1.0), ("b", 1.0), ("c", 0.0), ("d", -1.0)]


def test_bad_input_is_one_line(database):
    with pytest.raises(ResultsError, match="no search and no topology"):
        similar(database, "d1:ffff", Analytical())
    with pytest.raises(UsageError, match="--limit"):
        similar(database, "one/0", Analytical(), limit=0)
    with pytest.raises(ResultsError, match="data set"):
        similar(database, "one/0", Analytical(), data="digit")
    with pytest.raises(UsageError, match="features"):
        embedder("feature")


def test_command(database, tmp_path):
    run = CliRunner()
    at = str(tmp_path / "results.db")
    answer = run.invoke(app, ["results", "similar", "one", "--db", at, "--json", "--limit", "2"])
    assert answer.exit_code == 0
    rows = json.loads(answer.stdout)
    assert len(rows) == 2
    assert rows[0]["similarity"] >= rows[1]["similarity"]
    shown = run.invoke(app, ["results", "similar", "one", "--db", at])
    assert "similarity" in shown.stdout
    assert digest_of("303103")[:15] in shown.stdout or digest_of("303303")[:15] in shown.stdout
    table_csv = run.invoke(app, ["results", "similar", "one/0", "--db", at, "--csv"])
    assert table_csv.stdout.splitlines()[0].startswith("similarity,digest,trial")


def test_a_view_sees_what_is_stored_and_computes_nothing(database):
    query = Query(database)
    assert query.similar("one/0") == []
    assert query.embedded() == 0
    rows = similar(database, "one/0", embedder("features"), limit=3)
    assert query.similar("one/0", limit=3) == rows
    assert query.embedded() == len({digest(SPACE.decode(nasbench201.decisions(code))) for code in CODES})

    fill(database, name="two", codes=("323103",), scores=[0.9])
    # What has no vector yet is not among the answers, but may be asked about.
    assert query.similar("one/0", limit=3) == rows
    assert query.similar("two/0", limit=3) == [
        row for row in similar(database, "two/0", embedder("features"), limit=3) if row.trial.startswith("one/")
    ]
