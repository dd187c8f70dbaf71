"""Descriptors and warm sources in the database."""

from detol.results import descriptors
from detol.results.query import Query
from detol.search.warm import WarmRecord, WarmSource
from detol.spaces.decisions import Decisions

BARE = {"data": "x1:a", "figures": {"log_rows": 7.0}, "probes": {}}
PROBED = {**BARE, "probes": {"d1:x": -0.5}}


def test_a_descriptor_is_kept_once_and_completed_with_probes(database):
    def body():
        with database.read() as connection:
            return descriptors.bodies(connection, "m1", ["x1:a", "x1:other"])

    assert body() == {}
    for given, expected in ((BARE, BARE), (PROBED, PROBED), (BARE, PROBED), ({**PROBED, "figures": {}}, PROBED)):
        database.write(lambda connection, given=given: descriptors.keep(connection, "x1:a", "m1", given))
        assert body() == {"x1:a": expected}
    with database.read() as connection:
        assert descriptors.bodies(connection, "m2", ["x1:a"]) == {}


def test_sources_of_a_search_are_listed_in_their_order(database, make_search, make_trial):
    make_search("before", make_trial(0, 0.5))
    make_search("mine", make_trial(0, 0.5), data="wine")
    records = tuple(WarmRecord(Decisions(width=n), -float(n), f"before/{n}") for n in range(3))
    near = WarmSource("before", "x1:digits", records, 0.75, {"tau": 0.5, "data_name": "digits", "searches": ["before"]})
    far = WarmSource("a, b", "x1:iris", records[:2], 0.25)
    database.write(lambda connection: descriptors.list_sources(connection, "mine", [near, far]))
    query = Query(database)
    first, second = query.warm_sources("mine")
    assert (first["data"], first["weight"], first["records"], first["tau"]) == ("x1:digits", 0.75, 3, 0.5)
    assert (second["searches"], second["records"]) == ("a, b", 2)
    assert query.warm_sources("before") == []
    assert query.show("mine/0")["warm_sources"] == [first, second]
    database.write(lambda connection: descriptors.note_trust(connection, "mine", [0.9, 0.05, 0.0]))
    assert [source["borne_out"] for source in query.warm_sources("mine")] == [0.9, 0.05]


def test_names_with_sql_in_them_are_names(database, make_search, make_trial):
    name = "x'); DROP TABLE warm_sources; --"
    make_search(name, make_trial(0, 0.5))
    records = (WarmRecord(Decisions(width=1), 1.0), WarmRecord(Decisions(width=2), 0.5))
    database.write(lambda connection: descriptors.list_sources(connection, name, [WarmSource(name, name, records)]))
    assert Query(database).warm_sources(name)[0]["searches"] == name
