"""The bench on a small table whose every figure is known: 27 rows, the score is the number in base three."""

import gzip
import json
import lzma
import math

import numpy as np
import pytest

from detol import wire
from detol.bench import Entry, Protocol, answer, open_table
from detol.bench.keys import code_of
from detol.bench.picture import draw
from detol.bench.run import Run
from detol.bench.statistics import interval, summary
from detol.bench.table import Column
from detol.errors import SpaceError, UsageError
from detol.search.records import Candidate, Objective, Origin
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace

SPACE = DecisionSpace("digits3", [Choice(name, (0, 1, 2), ordered=True) for name in "abc"])
ROWS = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]


def lines(rows=ROWS, header="a,b,c,score,test,seconds", cell=lambda row: ",".join(map(str, row))):
    return [header, *(f"{cell(row)},{9 * row[0] + 3 * row[1] + row[2]},{row[2]},{10 + row[0]}" for row in rows)]


def write(path, text):
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    return open_table(write(tmp_path / "t.csv", lines()), SPACE, Objective("score"), tests=["test"], cost="seconds*1/2")


def candidate(**decisions):
    taken = Decisions(decisions)
    return Candidate(taken, SPACE.decode(taken), Origin.SAMPLE)


def test_rows_by_columns(table):
    assert len(table) == 27
    assert table.best == 26
    assert table.row(candidate(a=1, b=0, c=2)) == 11
    found = table.answer(candidate(a=1, b=0, c=2))
    assert (found.metrics, found.seconds) == ({"score": 11.0}, 5.5)


@pytest.mark.parametrize(
    "cell", [lambda r: "|".join(map(str, r)), lambda r: f'"{{""a"": {r[0]}, ""b"": {r[1]}, ""c"": {r[2]}}}"']
)
def test_rows_by_a_key_of_options_or_json(tmp_path, cell):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines(header="key,score,test,seconds", cell=cell)))
    found = open_table(path, SPACE, Objective("score", minimise=True), key="key")
    assert found.row(candidate(a=2, b=1, c=0)) == 21
    assert found.best == 0
    assert found.answer(candidate(a=2, b=1, c=0)).metrics == {"score": 21.0}


@pytest.mark.parametrize("taken", ["decisions", "candidate.decisions"])
def test_rows_by_the_code_of_a_users_file(tmp_path, taken):
    name = taken.partition(".")[0]
    write(
        tmp_path / "mine.py",
        [
            "from detol.spaces.decisions import Choice",
            "from detol.spaces.space import DecisionSpace",
            "SPACE = DecisionSpace('mine', [Choice(name, (0, 1, 2)) for name in 'abc'])",
            f"def code({name}):",
            f"    return ''.join(str({taken}[k]) for k in 'cba')",
        ],
    )
    space = catalogue.load(str(tmp_path / "mine.py"))
    path = write(tmp_path / "t.csv", lines(header="arch,score,test,seconds", cell=lambda r: "".join(map(str, r[::-1]))))
    found = open_table(path, space, Objective("score"), key="arch")
    assert found.row_of(Decisions(a=1, b=2, c=0)) == 15


def test_the_published_space_has_its_code():
    space = catalogue.load("nasbench201")
    code = code_of(space)
    assert code is not None
    assert code(space.references["residual"]) == "303103"
    assert code_of(SPACE) is None


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda t: t[:-2], {}, "25 of the 27 topologies.*'a': 2, 'b': 2, 'c': 1"),
        (lambda t: [*t, t[3]], {}, "rows 3 and 28 are the same topology"),
        (
            lambda t: [*t[:5], t[5].replace("0,1,1", "0,1,7"), *t[6:]],
            {},
            "row 5, decision 'c': '7' is none of its options",
        ),
        (lambda t: [*t[:5], "0,1,1,good,1,1", *t[6:]], {}, "row 5: column 'score' holds numbers, got 'good'"),
        (lambda t: [*t[:5], "0,1,1,nan,1,1", *t[6:]], {}, "row 5: column 'score' holds numbers"),
        (lambda t: [*t[:5], "0,1,1,1,1,-4", *t[6:]], {"cost": "seconds"}, "seconds >= 0, got -4"),
        (lambda t: t[:1], {}, "it has no rows"),
        (lambda t: [*t[:5], t[5] + ",1", *t[6:]], {}, "Expected 6 fields in line 6, saw 7"),
        (lambda t: [t[0], *(line + ",1" for line in t[1:])], {}, "a row has more fields than the header"),
        (lambda t: [line.replace(",", ";") for line in t], {}, "separated by ';': separate them by commas"),
        (lambda t: [line.replace(",", "|") for line in t], {}, "separated by '|': separate them by commas"),
        (lambda t: [*t[:5], "0,1,1,1e101,1,1", *t[6:]], {}, r"holds numbers of at most 1e\+100 in size, got '1e101'"),
        (lambda t: [t[0].replace("test", "score"), *t[1:]], {}, "column 'score' stands there twice"),
        (lambda t: t, {"objective": "scor"}, "objective column.*'scor'.*score"),
        (lambda t: t, {"tests": ["tset"]}, "test column.*did you mean test"),
        (lambda t: t, {"cost": "second"}, "cost column"),
        (lambda t: t, {"cost": "seconds*x"}, "factor > 0"),
        (lambda t: t, {"key": "name"}, "key column"),
        (lambda t: [line.partition(",")[2] for line in t], {}, "no column for decision 'a'.*--key"),
        (lambda t: t, {"key": "score"}, "row 1: score '0' has 1 options"),
        (lambda t: t, {"key": "a"}, "key '0' stands in several rows"),
    ],
)
def test_bad_tables_in_one_line(tmp_path, change, options, message):
    path = write(tmp_path / "t.csv", change(lines()))
    with pytest.raises(UsageError, match=message) as caught:
        open_table(path, SPACE, Objective(options.pop("objective", "score")), **options)
    assert "\n" not in str(caught.value)


def test_code_that_does_not_fit_the_table(tmp_path):
    space = catalogue.load("nasbench201")
    path = write(tmp_path / "t.csv", ["arch,score", "000000,1", "000001,2"])
    with pytest.raises(UsageError, match="no row has arch '000002'"):
        open_table(path, space, Objective("score"), key="arch")
    path = write(tmp_path / "t.csv", ["arch,score", "0,1", "1,2"])
    with pytest.raises(UsageError, match="no row has arch '000000'.*'0' is there, so leading zeros were lost"):
        open_table(path, space, Objective("score"), key="arch")
    with pytest.raises(UsageError, match="no such file"):
        open_table(tmp_path / "none.csv", space, Objective("score"), key="arch")


def test_code_that_raises_is_one_line(tmp_path):
    write(
        tmp_path / "raises.py",
        [
            "from detol.spaces.decisions import Choice",
            "from detol.spaces.space import DecisionSpace",
            "SPACE = DecisionSpace('raises', [Choice(name, (0, 1, 2)) for name in 'abc'])",
            "def code(decisions):",
            "    raise KeyError('two\\nlines')",
        ],
    )
    space = catalogue.load(str(tmp_path / "raises.py"))
    path = write(tmp_path / "t.csv", ["arch,score", "0,1"])
    with pytest.raises(SpaceError, match=r"raises.py, line 5: KeyError: .*, in code\(\)$") as caught:
        open_table(path, space, Objective("score"), key="arch")
    assert "\n" not in str(caught.value)


def compared(table, entries, **options):
    protocol = Protocol(**{"trials": 27, **options})
    return answer(table, protocol, entries, wire.strategy, seeds=4, processes=1)


def test_random_search_against_closed_forms(table):
    found = answer(table, Protocol(trials=27), [Entry("random")], wire.strategy, seeds=60, processes=1)
    (random,) = found["strategies"]
    # Without repeats the best stands at each of the 27 places with equal probability; the expected maximum of 10 of
    # the numbers 0 to 26 is 10 * 28 / 11 - 1.
    assert random["mean_trainings_to_best"] == pytest.approx(14, abs=4 * math.sqrt((27**2 - 1) / 12 / 60))
    assert random["best"]["10"] == pytest.approx(10 * 28 / 11 - 1, abs=0.8)
    assert random["best"]["25"] <= random["best"]["end"] == 26
    assert random["found"] == 1
    assert random["test"]["test"]["end"] == 2
    assert (random["duplicates"], random["trainings"]) == (0, 27)
    assert random["regret"][-1] == {"trainings": 27, "mean": 0.0}
    low, high = random["intervals"]["mean_trainings_to_best"]
    assert low < random["mean_trainings_to_best"] < high
    assert found["protocol"]["name"] == "queries"
    assert (found["best"], found["rows"]) == (26, 27)
    json.dumps(found)


def test_several_processes_give_the_same_figures(table):
    entries = [Entry("random"), Entry("local_search", {"start": 3}, "climb")]
    alone = compared(table, entries, trials=15)["strategies"]
    protocol = Protocol(trials=15)
    together = answer(table, protocol, entries, wire.strategy, seeds=4, processes=2)["strategies"]
    assert [entry["strategy"] for entry in alone] == ["random", "climb"]
    for one, other in zip(alone, together, strict=True):
        assert timeless(one) == timeless(other)


def timeless(figures):
    return {**figures, "ask_seconds": 0, "search_seconds": 0}


def test_an_entry_of_fewer_seeds(table):
    entries = [Entry("random"), Entry("local_search", seeds=2), Entry("random", label="more", seeds=9)]
    found = compared(table, entries)["strategies"]
    assert [entry["seeds"] for entry in found] == [4, 2, 4]
    assert timeless(found[0]) == timeless({**found[2], "strategy": "random"})
    assert found[0]["found_by"]["25"] <= found[0]["found"] == 1


def test_seconds_bound_what_counts(table):
    # A training takes 5, 5.5 or 6 simulated seconds: in 32 there is room for five or six.
    (random,) = compared(table, [Entry("random")], trials=math.inf, seconds=32.0)["strategies"]
    assert 5 <= random["trainings"] <= 6
    assert random["simulated_seconds"] <= 32


def test_workers_share_the_time(table):
    found = compared(table, [Entry("random")], trials=math.inf, seconds=32.0, workers=4)
    assert found["protocol"]["name"] == "async"
    assert 20 <= found["strategies"][0]["trainings"] <= 24
    assert found["strategies"][0]["utilisation"] > 0.7


def test_networks_count_once(tmp_path):
    # Skips are contracted: aXb and Xab are one network.
    from detol.graph.ops import op
    from detol.spaces.cells import chain_space

    space = chain_space("skips", 3, {"skip": None, "conv": op("conv")})
    keys = ["|".join(d.values()) for d in space.enumerate()]
    path = write(tmp_path / "t.csv", ["key,score", *(f"{key},{key.count('conv')}" for key in keys)])
    table = open_table(path, space, Objective("score"), key="key")
    by_row = answer(table, Protocol(trials=8), [Entry("random")], wire.strategy, seeds=3, processes=1)
    by_net = answer(
        table, Protocol(trials=8, identity="network"), [Entry("random")], wire.strategy, seeds=3, processes=1
    )
    assert by_row["strategies"][0]["duplicates"] == 4  # eight rows, four networks
    assert by_net["strategies"][0]["duplicates"] == 0
    assert by_net["strategies"][0]["trainings"] == 4


def test_incumbents_are_chosen_by_the_objective_alone(table):
    # Row 2 scores 2, row 1 scores 1; a tie keeps the earlier row.
    run = Run(np.array([1, 0, 2, 1]), np.arange(4.0), 0, 1.0, 0.0, frozenset())
    found = summary("x", table, Protocol(trials=25), [run])
    assert found["regret"][0]["mean"] == 25
    assert found["mean_trainings_to_best"] == 25
    assert found["found"] == 0
    assert found["test"]["test"]["end"] == 2


MARKS = ["10", "25", "50", "100", "200"]


def ran(*rows):
    return Run(np.array(rows), np.arange(float(len(rows))), 0, 1.0, 0.0, frozenset())


@pytest.mark.parametrize(
    ("options", "longest", "marks", "missed"),
    [
        ({"trials": 200}, 0, MARKS, 200),  # the budget, though the run ended after three
        ({"trials": 60}, 30, MARKS[:3], 60),
        ({"seconds": 9.0}, 0, [], 3),
        ({"seconds": 9.0}, 30, MARKS[:2], 30),  # of another strategy
        ({"seconds": 9.0, "trials": 12}, 30, MARKS[:1], 12),
        ({"seconds": 9.0, "trials": 1000}, 60, MARKS[:3], 60),
        ({"trials": 10**12, "until_best": True}, 0, MARKS, 1e12),  # no array is as long as this budget
    ],
)
def test_every_mark_within_the_budget_is_there(table, options, longest, marks, missed):
    found = summary("x", table, Protocol(**options), [ran(4, 25, 3)], longest)
    assert list(found["best"]) == list(found["test"]["test"]) == list(found["intervals"]["best"]) == [*marks, "end"]
    assert set(found["best"].values()) == {25.0}  # row 25 is the incumbent from the second training on
    assert set(found["test"]["test"].values()) == {1.0}
    assert found["found_by"] == dict.fromkeys(marks, 0.0)
    assert found["mean_trainings_to_best"] == missed


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.csv.zst", "t.csv.tar"])
def test_damaged_compressed_tables_in_one_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"no such format" * 9)
    with pytest.raises(UsageError, match="it cannot be read as CSV") as caught:
        open_table(tmp_path / name, SPACE, Objective("score"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("module", "fault"), [(gzip, "error"), (lzma, "LZMAError")])
def test_flipped_bytes_of_a_table_in_one_line(tmp_path, module, fault):
    data = bytearray(module.compress("\n".join(lines()).encode()))
    data[30:60] = bytes(255 - byte for byte in data[30:60])
    path = tmp_path / f"t.csv.{ {gzip: 'gz', lzma: 'xz'}[module] }"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=rf"it cannot be read as CSV \({fault}: "):
        open_table(path, SPACE, Objective("score"))


def test_interval_covers_as_the_normal_one():
    values = np.random.default_rng(0).normal(5, 2, 400)
    low, high = interval(values)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


def test_picture(table, tmp_path):
    path = draw(compared(table, [Entry("random")], trials=10), tmp_path / "deep" / "dir")
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "options",
    [
        {"trials": 0},
        {},
        {"trials": 3, "seconds": -1.0},
        {"trials": 3, "identity": "rows"},
        {"trials": 3, "workers": 0},
        {"seconds": 3.0, "until_best": True},  # it would shorten the longest search, which is what a miss counts as
    ],
)
def test_protocols_that_make_no_sense(options):
    with pytest.raises(UsageError):
        Protocol(**options)


OPEN = DecisionSpace(
    "open",
    [Choice("op", ("conv", "pool")), Choice("size", (3, 5), when={"op": ("conv",)})],
)
OPENED = ["op,size,score", "conv,3,1", "conv,5,2", "pool,,3"]


@pytest.mark.parametrize("closed", ["", "-", "NaN"])
def test_a_closed_decision_is_empty(tmp_path, closed):
    path = write(tmp_path / "t.csv", [*OPENED[:3], f"pool,{closed},3"])
    assert open_table(path, OPEN, Objective("score")).row_of(Decisions(op="pool")) == 2
    path = write(tmp_path / "t.csv", [*OPENED[:3], "pool,3,3"])
    with pytest.raises(UsageError, match="row 3: 'size' is no open decision of the others, and it is '3'"):
        open_table(path, OPEN, Objective("score"))


def test_a_json_key_has_nothing_but_its_decisions(tmp_path):
    cells = ['{""op"": ""conv"", ""size"": 3}', '{""op"": ""conv"", ""size"": 5}', '{""op"": ""pool"", ""zz"": 3}']
    path = write(tmp_path / "t.csv", ["k,score", *(f'"{cell}",1' for cell in cells)])
    with pytest.raises(UsageError, match="row 3: k: 'zz' is no open decision of the others"):
        open_table(path, OPEN, Objective("score"), key="k")


def test_options_of_several_types_and_with_bars(tmp_path):
    space = DecisionSpace("mixed", [Choice("a", ("x|y", "z")), Choice("b", (0.1, 1e-3, True))])
    rows = [("x|y", "0.10"), ("x|y", "1e-3"), ("x|y", "true"), ("z", "0.1"), ("z", "0.001"), ("z", "1")]
    path = write(tmp_path / "t.csv", ["a,b,score", *(f"{a}, {b}, {n}" for n, (a, b) in enumerate(rows))])
    found = open_table(path, space, Objective("score"))
    assert [found.row_of(Decisions(a=a, b=b)) for a, b in (("x|y", True), ("z", 0.1), ("z", True))] == [2, 3, 5]
    path = write(tmp_path / "t.csv", ["k,score", *(f"{a}|{b},{n}" for n, (a, b) in enumerate(rows))])
    with pytest.raises(UsageError, match=r"decision 'a' hold a \|: write keys as JSON objects"):
        open_table(path, space, Objective("score"), key="k")


def test_a_table_far_too_small_for_its_space_is_refused_at_once(tmp_path):
    space = DecisionSpace("large", [Choice(name, (0, 1, 2, 3, 4)) for name in "abcdefghijkl"])
    path = write(tmp_path / "t.csv", [",".join([*"abcdefghijkl", "score"]), ",".join("0" * 13)])
    with pytest.raises(UsageError, match="it has 1 of the 244140625 topologies"):
        open_table(path, space, Objective("score"))


def test_searches_in_which_no_training_ended(table):
    """The quickest training takes 5 s, the slowest 6; a search that has none counts as the worst row."""
    with pytest.raises(UsageError, match=r"no training ended within --seconds 4 \(the quickest of the table takes 5\)"):
        answer(table, Protocol(seconds=4.0), [Entry("random")], wire.strategy, seeds=3, processes=1)
    found = answer(table, Protocol(seconds=5.0), [Entry("random")], wire.strategy, seeds=30, processes=1)
    (figures,) = found["strategies"]
    assert figures["trainings"] == pytest.approx(1 - figures["untrained"] / 30)
    assert 0 < figures["untrained"] < 30
    assert summary("x", table, Protocol(seconds=9.0), [ran(4), ran()])["best"]["end"] == 2.0


def test_bad_comparisons(table):
    for entries, seeds in (([], 1), ([Entry("rnadom")], 1), ([Entry("optuna:NoSampler")], 1), ([Entry("random")], 0)):
        with pytest.raises(UsageError):
            answer(table, Protocol(trials=3), entries, wire.strategy, seeds=seeds, processes=1)


def test_columns():
    assert Column.parse("a*12/200") == Column("a", 0.06)
    assert Column.parse("a*2") == Column("a", 2.0)
    assert Column.parse("a") == Column("a")


@pytest.mark.parametrize("strategy", ["random", "local_search", "evolution"])
@pytest.mark.parametrize("identity", ["row", "network"])
def test_a_search_that_ends_with_the_best_says_the_same_of_incumbents(table, strategy, identity):
    whole, until = (
        answer(
            table,
            Protocol(trials=40, identity=identity, until_best=until_best),
            [Entry(strategy)],
            wire.strategy,
            seeds=5,
            processes=1,
        )["strategies"][0]
        for until_best in (False, True)
    )
    assert until["trainings"] < whole["trainings"]
    assert until["found"] == 1.0
    for name in ("mean_trainings_to_best", "median_trainings_to_best", "found"):
        assert until[name] == whole[name]
    assert until["found_by"] | whole["found_by"] == until["found_by"]
    assert {k: until["best"][k] for k in whole["best"]} == whole["best"]
    assert {k: until["test"]["test"][k] for k in whole["test"]["test"]} == whole["test"]["test"]
