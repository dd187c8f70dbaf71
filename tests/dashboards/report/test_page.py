"""The page as a parser reads it: self-contained, escaped, with everything the issue asks for."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from detol.dashboards.report.writer import write_report
from detol.results.query import Query
from detol.results.store import Database

from .conftest import NAME, ODD, candidate, create, trial

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements of a page as (tag, attributes), its text by the element it stands in, and what was left open."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.open, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        opened = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, tag):
        return ["".join(text.split()) for at, text in self.texts if at == tag]

    def shown(self):
        """What a person can read: without scripts and styles."""
        return " ".join(text for at, text in self.texts if at not in ("script", "style"))


@pytest.fixture(scope="module")
def first(reported):
    return Page((reported / "first.html").read_text())


@pytest.fixture(scope="module")
def odd(reported):
    return Page((reported / "odd.html").read_text())


def payload(page):
    text = next(t for (at, t) in page.texts if at == "script" and len(t) > 1000 and t != library(page))
    return json.loads(gzip.decompress(base64.b64decode(text)))


def library(page):
    return max((text for at, text in page.texts if at == "script"), key=len)


def test_every_element_is_closed(first, odd):
    assert first.open == []
    assert odd.open == []


def test_it_asks_for_nothing(first):
    for tag, attributes in first.found:
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
    style = "".join(text for at, text in first.texts if at == "style")
    assert "url(" not in style
    assert "@import" not in style
    assert not [tag for tag, _ in first.found if tag in ("iframe", "object", "embed", "base", "form") and tag != "form"]


def test_its_policy_lets_its_own_two_scripts_run_and_nothing_be_fetched(first):
    (policy,) = [a["content"] for t, a in first.found if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = [text for at, text in first.texts if at == "script"]
    own = scripts[-1]
    plotly = gzip.decompress(base64.b64decode(library(first))).decode()
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in (own, plotly)}
    assert set(rules["script-src"].split()) == hashes
    assert "plotly.js v" in plotly[:200]
    kinds = [attributes.get("type") for tag, attributes in first.found if tag == "script"]
    assert kinds == ["application/gzip+base64", "application/gzip+base64", None]


def test_it_is_small(reported):
    assert (reported / "first.html").stat().st_size < 3_000_000


def test_it_says_what_was_asked_and_found(first):
    shown = re.sub(r"\s+", " ", first.shown())
    for part in (
        "best val accuracy (validation)",
        "test accuracy 0.8125",
        "100 train, 20 validation, 30 test",
        "all 48 trials are done",
        "plain (reference)",
        "detol search --data digits",
        "digest of the data x1:digits",
        "learning rate 0.1",
        "seed of the search 7",
        "spared by ending trials early 16 96",  # 16 trials, 6 of 9 epochs each
        "stopped 16 48",
        "busy",
    ):
        assert part in shown, part


def test_every_picture_has_a_place_and_data(first):
    drawn = [attributes["id"] for tag, attributes in first.found if attributes.get("class") == "chart"]
    assert drawn == [
        "front",
        "best-by-trials",
        "best-by-epochs",
        "best-by-time",
        "curves",
        "importance",
        "options",
        "lineage",
        "workers",
        "savings",
    ]
    held = payload(first)
    assert list(held["figures"]) == drawn
    assert all(figure["data"] for figure in held["figures"].values())


def test_each_trial_can_be_drawn_and_told(first):
    held = payload(first)
    assert len(held["of"]) == len(held["trials"]) == 48
    assert set(map(int, held["of"])) == set(range(48))
    for number, place in held["of"].items():
        width = dict(held["trials"][number]["decisions"])["width"]
        assert f"channels={width}" in held["svgs"][place].replace("channels=1 ", "")
    points = [n for trace in held["figures"]["front"]["data"] for n in trace.get("customdata", [])]
    assert set(points) == set(range(48))


def test_ranks_that_died_are_told_of_their_trials(tmp_path):
    with Database(tmp_path / "results.db") as opened:
        store = create(opened, "lossy")
        facts = {"ranks_lost": "1 at step 813", "width_now": 1}
        store.add(trial(0, candidate(8, 3), 0.9, width=2, extra=facts))
        store.add(trial(1, candidate(4, 3), 0.7, width=2))
        store.commit()
        store.finish()
        write_report(Query(opened), "lossy", tmp_path / "lossy.html", resamples=0)
    page = Page((tmp_path / "lossy.html").read_text())
    told = [dict(each["facts"]).get("ranks lost") for _, each in sorted(payload(page)["trials"].items())]
    assert told == ["1 at step 813 (1 left at its end)", None]
    assert "ranks lost 1 at step 813 (1 left at its end)" in " ".join(page.shown().split())  # of the winner


def test_the_winner_is_drawn_without_a_script(first):
    assert [attributes["class"] for tag, attributes in first.found if tag == "svg" and "class" in attributes] == [
        "topology"
    ]


def test_names_are_text_and_nothing_else(odd):
    tags = {tag for tag, _ in odd.found}
    assert not tags & {"img", "b", "i"}
    assert sum(tag == "script" for tag, _ in odd.found) == 3
    assert not [a for _, a in odd.found if any(name.startswith("on") for name in a)]
    (heading,) = ["".join(text for at, text in odd.texts if at == "h1")]
    assert heading == NAME
    (title,) = [text for at, text in odd.texts if at == "title" and NAME in text]
    assert title == f"{NAME}: detol report"
    assert ODD in odd.shown()  # the data set, the space, the reference, the reason
    assert f"detol search --data '{ODD}'" in "".join(text for at, text in odd.texts if at == "code")


def test_names_are_text_in_what_plotly_reads(odd):
    figures = json.dumps(payload(odd)["figures"])
    assert "<script" not in figures
    assert "<img" not in figures
    assert "<b>" not in figures
    assert "&lt;script&gt;document.title" in figures  # it is there, escaped


def test_names_are_text_in_drawings(odd):
    for drawing in payload(odd)["svgs"]:
        inside = Page(drawing)
        assert {tag for tag, _ in inside.found} <= {
            "svg", "title", "defs", "marker", "path", "rect", "g", "text", "style"
        }  # fmt: skip
