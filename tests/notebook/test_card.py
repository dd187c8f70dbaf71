"""Cards: well-formed, complete, and escaped, whatever a name or a message holds."""

import math
from html.parser import HTMLParser

import pytest

import detol
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.notebook import card
from detol.notebook.drawing import Drawing
from detol.result import SearchResult
from detol.results.query import SearchRow, TopRow
from detol.search.records import Objective
from detol.spaces.decisions import Choice
from detol.spaces.space import DecisionSpace

EVIL = "<script>alert('x')</script>&\"'"
VOID = {"img", "br"}
SPACE = DecisionSpace("grid", [Choice("a", (0, 1, 2)), Choice("b", (1, 2))])


class Tags(HTMLParser):
    """Reads HTML strictly: every tag that opens also closes; ``seen`` are the tags, ``text`` is what is read."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def row(**changes):
    values = {
        "name": "mine", "state": "running", "data": "digits", "space": "tiny", "strategy": "guided", "stopper": "none",
        "objective": "val_accuracy", "seed": "0", "budget": 9, "epochs": 3, "trials": 4,
        "states": {"completed": 2, "out_of_memory": 1, "running": 1}, "trained": 3, "reused": 1, "paused": 0,
        "epochs_trained": 7, "best": "mine/2", "value": 0.98765, "seconds": 61.0, "created": "", "ended": "",
        "host": "", "pid": None,
    }  # fmt: skip
    return SearchRow(**{**values, **changes})


def top(**changes):
    values = {
        "trial": "mine/2", "digest": "d1:0", "data": "digits", "space": "tiny", "metric": "val_accuracy",
        "value": 0.98765, "mean": 0.98, "n": 1, "params": 12345, "multiply_adds": None, "activation_bytes": None,
        "depth": None, "epochs": 3, "epoch": 2, "seconds": 1.0, "state": "stopped", "origin": "mutate", "note": "",
        "recipe": "", "reused": "",
    }  # fmt: skip
    return TopRow(**{**values, **changes})


def test_a_search_with_its_figures():
    text = Tags(card.search_card(row(), [top()], None, state="running")).text
    for part in ("mine", "running", "val_accuracy", "0.9877", "(trial 2)", "4 of 9", "1 out of memory", "1:01 min"):
        assert part in text
    assert "12,345" in text
    assert "2 of 3" in text


def test_a_search_without_a_score_or_a_budget():
    text = Tags(card.search_card(row(value=None, best="", budget=None, states={}), [], None, state="running")).text
    assert "best" not in text
    assert "of None" not in text


@pytest.mark.parametrize("name", ["name", "data", "space", "strategy", "stopper", "seed", "objective", "best"])
def test_text_of_a_search_is_escaped(name):
    found = Tags(card.search_card(row(**{name: EVIL}), [top(note=EVIL, metric=EVIL)], None, state=EVIL, error=EVIL))
    assert "script" not in found.seen
    assert EVIL in found.text


def test_a_drawing_cannot_leave_its_image():
    drawing = Drawing(chain(op("symbol", name=EVIL, value=EVIL)), title=EVIL)
    found = Tags(drawing.image(100))
    assert found.seen == ["img"]
    Tags(drawing._repr_svg_())
    assert "<script" not in drawing.svg


def test_a_drawing_is_made_where_the_shape_does_not_fit(tmp_path):
    topology = chain(op("linear", features=3))  # not of an image
    assert Drawing(topology, (1, 8, 8)).svg == Drawing(topology).svg
    assert Drawing(topology, (5,)).svg != Drawing(topology).svg
    Drawing(topology).save(tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_text() == Drawing(topology).svg


def test_a_topology_draws_itself():
    Tags(chain(op("conv", channels=3))._repr_svg_())


def test_a_result_shows_itself_and_becomes_a_table():
    def value(candidate):
        if candidate.decisions["a"] == 0:
            raise ValueError(EVIL)
        return {"cost": float(candidate.decisions["a"] * candidate.decisions["b"])}

    found = detol.optimize(SPACE, value, strategy="random", trials=6, objective="cost:min")
    assert repr(found) == f"SearchResult('optimize', 6 trials, best cost 1.0000 of trial {found.best.number})"
    shown = Tags(found._repr_html_())
    assert "best cost 1.0000" in " ".join(shown.text.split())
    assert shown.seen.count("tr") == 1 + 4  # those with a score
    table = found.frame()
    assert len(table) == 6
    assert table["cost"].min() == 1.0
    assert table.loc[table["a"] == 0, "cost"].isna().all()
    assert table.loc[table["a"] == 0, "reason"].str.contains("script").all()
    both = table[table["state"] == "completed"]
    assert (both["cost"] == both["a"] * both["b"]).all()


def test_a_result_without_a_score():
    found = SearchResult("none", [], None, (Objective("val_accuracy"),), "all 0 trials are done")
    assert repr(found) == "SearchResult('none', 0 trials)"
    assert "all 0 trials are done" in Tags(found._repr_html_()).text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.98765, "0.9877"), (0, "0.0000"), (1.23456e-7, "1.235e-07"), (4.5e7, "4.5e+07"), (-0.5, "-0.5000")],
)
def test_numbers_say_something(value, text):
    assert card.number(value) == text
    assert math.isclose(float(card.number(value)), value, rel_tol=1e-3)
