"""The dashboard over plain HTTP: pages, the JSON API, errors in one line, and who may look."""

import http.client
import json
import re
from urllib.parse import quote, urlencode, urlsplit

import pytest

from detol.dashboards.web.links import url
from detol.embedding.embedders import embedder
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.results.query import Query, plain
from detol.results.similarity import similar
from detol.results.store import Database
from detol.search.records import Candidate, Origin, State, Trial
from detol.spaces.decisions import Decisions

from .conftest import ODD, fill, served


@pytest.fixture
def ask(site):
    """Ask the dashboard; return (status, headers, text)."""

    def asked(path, *, at=site, method="GET", **headers):
        place = urlsplit(at)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    return asked


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/search?name=frist", 404, "unknown search &#39;frist&#39;: did you mean first?"),
        ("/trial?ref=first/999", 404, "search &#39;first&#39; has no trial 999"),
        ("/trial?ref=first/x", 404, "unknown search"),
        ("/compare?a=first/1&b=first/999", 404, "has no trial 999"),
        ("/compare?t=first/1", 400, "two trials are compared, got 1"),
        ("/search?name=first&sort=colour", 400, "unknown column to sort by"),
        ("/search?name=first&page=0", 422, "page: "),
        ("/search?name=first&page=1e9", 422, "page: "),
        ("/search?name=first&order=up", 422, "order: "),
        ("/search", 422, "name: "),
        ("/database?data=nothing", 404, "unknown data set"),
        ("/database?metric=nothing", 404, "unknown metric"),
        ("/nowhere", 404, "there is no such page"),
        ("/search?name=" + quote("<script>alert(1)</script>"), 404, "&lt;script&gt;"),
    ],
)
def test_what_is_not_there_is_one_line_on_a_page(ask, path, status, text):
    found, _, page = ask(path)
    assert found == status
    assert text in page
    assert "<script>alert" not in page
    assert "Traceback" not in page
    line = re.search(r"<p>(.*?)</p>", page, re.DOTALL)[1]
    assert "\n" not in line


@pytest.mark.parametrize("path", ["/api/search?name=frist", "/api/trial?ref=first/999", "/api/top?metric=nothing"])
def test_the_api_answers_errors_in_json(ask, path):
    status, headers, text = ask(path)
    assert status == 404
    assert headers["content-type"] == "application/json"
    assert list(json.loads(text)) == ["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(ask, method):
    for path in ("/", "/search?name=first", "/api/searches"):
        assert ask(path, method=method)[0] == 405


def test_nothing_comes_from_elsewhere(ask):
    for path in ("/", "/search?name=first", "/trial?ref=first/11", "/api", "/static/app.css", "/static/app.js"):
        _, headers, text = ask(path)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert not re.search(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", text)
        assert " style=" not in text


def test_a_name_is_escaped_wherever_it_stands(ask):
    for path in ("/", "/search?" + urlencode({"name": ODD}), "/trial?" + urlencode({"ref": f"{ODD}/0"}), "/database"):
        status, _, text = ask(path)
        assert status == 200
        assert "<script>document" not in text
        assert "<img src=x" not in text
        assert "49" not in re.findall(r"&lt;i&gt;.{0,80}?(49)", text)


def test_what_has_not_changed_is_not_sent_again(ask, live):
    path = "/search?name=live"
    status, headers, text = ask(path)
    assert status == 200
    assert text
    status, _, text = ask(path, If_None_Match=headers["etag"])
    assert (status, text) == (304, "")
    live.report(0.7)
    status, after, _ = ask(path, If_None_Match=headers["etag"])
    assert status == 200
    assert after["etag"] != headers["etag"]


def test_a_search_or_a_digest_leads_to_its_best_trial(ask, database):
    best = Query(database).resolve("first")
    for ref in ("first", best.trial.digest):
        status, headers, _ = ask("/trial?" + urlencode({"ref": ref}))
        assert status == 303
        assert headers["location"].startswith("/trial?ref=")


def test_a_trial_shows_the_nearest_of_those_that_are_embedded(ask, database):
    assert "Similar to" not in ask("/database")[2]
    _, before, text = ask("/trial?ref=first/11")
    assert 'id="similar"' not in text
    (nearest,) = similar(database, "first/11", embedder("features"), limit=1)[:1]
    _, after, text = ask("/trial?ref=first/11", If_None_Match=before["etag"])
    assert after["etag"] != before["etag"]
    shown = text[text.index('id="similar"') :]
    assert f"{url('/compare', a='first/11', b=nearest.trial)}".replace("&", "&amp;") in shown
    assert json.loads(ask("/api/similar?ref=first/11&limit=1")[2]) == plain(Query(database).similar("first/11", 1))
    _, _, text = ask("/database")
    best = Query(database).top(data="digits", limit=1)[0].trial
    shown = text[text.index('id="nearest"') :]
    rows = Query(database).similar(best, 8)
    assert len(rows) == 8
    for row in rows:
        assert url("/compare", a=best, b=row.trial).replace("&", "&amp;") in shown


def test_the_api_gives_what_the_queries_give(ask, database):
    query = Query(database)
    expected = {
        "/api/searches?limit=2": query.searches(2),
        "/api/search?name=first": query.status("first"),
        "/api/settings?name=first": query.settings("first"),
        "/api/points?search=first": query.points("first"),
        "/api/trial?ref=first/11": query.show("first/11"),
        "/api/curve?ref=first/11": query.curve("first/11"),
        "/api/lineage?ref=first/11": query.lineage("first/11"),
        "/api/children?ref=first/0": query.children("first", 0),
        "/api/top?search=first&limit=3": query.top(search="first", limit=3),
        "/api/front?search=first": query.front(search="first"),
        "/api/data": query.data_sets(),
        "/api/spaces": query.spaces(),
    }
    for path, value in expected.items():
        status, _, text = ask(path)
        assert status == 200, path
        assert json.loads(text) == plain(value), path


def test_the_api_pages_through_all_trials(ask):
    seen = []
    for page in range(1, 4):
        query = urlencode({"search": "first", "size": 50, "page": page, "sort": "value", "descending": True})
        answer = json.loads(ask(f"/api/trials?{query}")[2])
        assert (answer["total"], answer["page"]) == (120, page)
        seen += [row["number"] for row in answer["rows"]]
    assert sorted(seen) == list(range(120))


def test_openapi_describes_every_call_and_the_page_lists_it(ask):
    described = json.loads(ask("/api/openapi.json")[2])
    page = ask("/api")[2]
    assert len(described["paths"]) >= 14
    for path, calls in described["paths"].items():
        assert list(calls) == ["get"]
        assert path in page
        assert ask(path)[0] in (200, 422)


def test_another_sites_name_for_this_machine_is_refused(ask):
    assert ask("/", Host="evil.example:80")[0] == 403
    assert ask("/", Host="evil.example")[0] == 403
    for host in ("localhost", "localhost:8642", "127.0.0.1:1", "[::1]:8642", "[::1]", "LOCALHOST"):
        assert ask("/", Host=host)[0] == 200


def test_a_token_is_needed_once(ask, database):
    with served(Query(database), token="right") as at:
        for path in ("/", "/api/searches", "/static/app.js", "/?token=wrong", "/?token="):
            status, _, text = ask(path, at=at)
            assert status == 401
            assert text.count("\n") == 1
        status, headers, _ = ask("/search?name=first&token=right&sort=value", at=at)
        assert status == 303
        assert headers["location"] == "/search?name=first&sort=value"
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "right" not in cookie
        assert ask("/", at=at, Cookie=cookie.split(";")[0], Host="any.example")[0] == 200
        assert ask("/api/searches", at=at, Authorization="Bearer right")[0] == 200
        assert ask("/api/searches", at=at, Authorization="Bearer wrong")[0] == 401
        assert ask("/", at=at, Cookie="detol=right")[0] == 401
        status, headers, _ = ask("//elsewhere.example/?token=right", at=at)
        assert headers["location"].startswith("/elsewhere")


def test_a_topology_can_be_taken_as_a_file(ask):
    status, headers, text = ask("/trial/topology.svg?ref=first/11")
    assert status == 200
    assert headers["content-type"].startswith("image/svg+xml")
    assert 'filename="first-11.svg"' in headers["content-disposition"]
    assert "<style>" in text


def test_static_files_are_not_a_way_out(ask):
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"):
        assert ask(path)[0] == 404


def test_a_trial_that_goes_on_is_shown_however_many_rest(ask, tmp_path):
    with Database(tmp_path / "results.db") as database:
        store = fill(database, "resting", 0, budget=99)
        for number in range(40):
            candidate = Candidate(Decisions(width=number), chain(op("conv", channels=4 + number)), Origin.SAMPLE)
            store.add(Trial(number, candidate, State.RUNNING if number == 3 else State.PAUSED, 6, seed=number))
        store.commit()
        with served(Query(database)) as site:
            _, _, page = ask("/search?name=resting", at=site)
    part = page.split('id="running"')[1].split("</section>")[0]
    assert re.findall(r"<tr><th scope=\"row\"><a [^>]*>(\d+)</a>", part) == ["3"]
    assert ">40 paused<" not in part
    assert ">39 paused<" in part


def test_an_empty_database_has_pages(ask, tmp_path):
    from detol.results.store import Database

    with Database(tmp_path / "empty.db") as empty, served(Query(empty)) as at:
        for path in ("/", "/database", "/api", "/compare"):
            assert ask(path, at=at)[0] == 200
        assert "detol search --data digits" in ask("/", at=at)[2]
