"""Which data sets a search begins with, and what of them its space can use."""

from dataclasses import replace

import pytest

from detol.graph.digest import digest
from detol.meta import choose
from detol.meta.descriptor import Descriptor
from detol.search.warm import Experience, PastTrial
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace

TINY = catalogue.load("tiny")
EACH = list(TINY.enumerate())


def target(**figures):
    return Descriptor("x1:target", "target", "features", "classification", {"log_rows": 7.0, **figures})


def past(decisions, score, number=0):
    return PastTrial(f"a/{number}", digest(TINY.decode(decisions)), decisions, score)


def experience(data, count=20, trials=(), space="tiny", name="a"):
    return Experience(data, data, (name,), space, "val_accuracy", "r1:x", {}, 3, count, tuple(trials))


def other(data, **figures):
    return Descriptor(data, data, "features", "classification", {"log_rows": 7.0, **figures})


def test_the_nearest_come_first_and_no_more_than_asked_for():
    rows = {"x1:near": 7.5, "x1:far": 10.0, "x1:middle": 9.0, "x1:last": 12.0}
    described = {data: replace(other(data), figures={"log_rows": size}) for data, size in rows.items()}
    found = choose.nearest(target(), [experience(data) for data in rows], described, most=3)
    assert [near.experience.data for near in found] == ["x1:near", "x1:middle", "x1:far"]
    assert found[0].weight > found[1].weight > found[2].weight


def test_too_few_records_and_too_distant_data_are_left_out_unless_named():
    described = {"x1:few": other("x1:few"), "x1:far": replace(other("x1:far"), kind="image")}
    each = [experience("x1:few", count=choose.FEWEST - 1), experience("x1:far")]
    assert choose.nearest(target(), each, described) == []
    named = choose.nearest(target(), each, described, named=True)
    assert {near.experience.data for near in named} == {"x1:few", "x1:far"}
    assert all(0 < near.weight <= 1 for near in named)


def test_of_one_data_set_the_experience_with_the_most_trials_counts():
    each = [experience("x1:a", count=9, name="small"), experience("x1:a", count=40, name="large")]
    (near,) = choose.nearest(target(), each, {"x1:a": other("x1:a")})
    assert near.experience.searches == ("large",)


def test_probes_that_disagree_make_a_data_set_less_near():
    probes = {name: float(n) for n, name in enumerate("abcdefg")}
    asked = target().with_probes(probes)
    alike = other("x1:alike").with_probes(probes)
    turned = other("x1:turned").with_probes({name: -score for name, score in probes.items()})
    described = {"x1:alike": alike, "x1:turned": turned}
    found = choose.nearest(asked, [experience("x1:turned"), experience("x1:alike")], described)
    assert [near.experience.data for near in found] == ["x1:alike", "x1:turned"]
    assert found[0].agreed.tau == pytest.approx(1)
    assert found[1].agreed.tau == pytest.approx(-1)


def made(trials, space="tiny"):
    near = choose.Near(experience("x1:a", trials=trials, space=space), 0.1, choose.Agreement(0.5, 7), 0.8)
    return choose.source(near, TINY)


def test_records_come_best_first_with_where_they_stand():
    found = made([past(decisions, float(n), n) for n, decisions in enumerate(EACH[:6])])
    assert [record.trial for record in found.records] == [f"a/{n}" for n in reversed(range(6))]
    assert found.records[0].decisions == EACH[5]
    assert (found.search, found.data, found.weight) == ("a", "x1:a", 0.8)
    assert found.facts["tau"] == 0.5
    assert found.facts["space"] == "tiny"


def test_decisions_that_lead_elsewhere_by_now_are_not_used():
    trials = [past(decisions, 1.0, n) for n, decisions in enumerate(EACH[:4])]
    changed = replace(trials[0], digest="d1:" + "0" * 40)
    gone = replace(trials[1], decisions=Decisions(width=7))
    found = made([changed, gone, *trials[2:]])
    assert {record.decisions for record in found.records} == set(EACH[2:4])
    assert made([changed, gone, trials[2]]) is None  # one alone is no order


def test_networks_of_another_space_are_read_anew():
    wide = DecisionSpace(
        "wide", [Choice("units", (16, 32, 64)), Choice("fn", ("relu", "tanh"))], lambda d: TINY.decode(like(d))
    )
    trials = []
    for n, decisions in enumerate(wide.enumerate()):
        topology = wide.decode(decisions)
        trials.append(PastTrial(f"b/{n}", digest(topology), decisions, float(n), topology))
    found = made(trials, space="wide")
    assert [record.decisions for record in found.records] == [like(t.decisions) for t in reversed(trials)]


def like(decisions):
    return Decisions(width=decisions["units"], activation=decisions["fn"], layers=1)
