"""The examples of a space, a strategy and a stopping rule are what the pages say, alone and together."""

import json
import re

import numpy as np

import detol
from detol import cli, plugins
from detol.graph.cost import cost
from detol.search.protocols import SearchSpace, Stopper, Strategy
from detol.search.records import Candidate, Origin, Report, State, Trial, Verdict
from detol.spaces import catalogue
from detol.spaces.decisions import Choice, Decisions
from detol.spaces.space import DecisionSpace

GRID = DecisionSpace("grid", [Choice(name, tuple(range(8)), ordered=True) for name in "abcd"])


def hill(candidate):
    return -float(sum((value - 5) ** 2 for value in candidate.decisions.values()))


def test_the_pages_show_the_files(docs, make):
    page = (docs / "extending.md").read_text()
    assert page == make.with_examples(page), "python docs/make.py examples"
    shown = [block.strip() for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)]
    for name in ("space", "strategy", "stopper"):
        text = (docs / "examples" / f"{name}.py").read_text()
        assert any(text.endswith(f"{block}\n") for block in shown), name


def test_the_space(docs):
    space = catalogue.load(docs / "examples" / "space.py")
    assert isinstance(space, SearchSpace)
    # By hand: 3 widths, and for each of 1, 2 or 3 blocks 3 kernels, with a pool or without.
    assert space.size == 3 * (6 + 6**2 + 6**3) == sum(1 for _ in space.enumerate())
    rng = np.random.default_rng(0)
    for decisions in [*space.references.values(), *(space.sample(rng) for _ in range(20))]:
        topology = space.decode(decisions)
        kinds = [str(node).partition("(")[0] for node in topology.nodes.values()]
        assert kinds.count("conv") == decisions["blocks"]
        assert kinds.count("pool") == sum(bool(decisions.get(f"pool_{n}")) for n in (1, 2, 3))
        assert cost(topology, (1, 8, 8), 10).params > 0
    # Two convolutions by hand: 1*16*9 weights and 16*32*9, batch norms 2*16 and 2*32, a classifier 32*10 + 10.
    plain = cost(space.decode(space.references["plain"]), (1, 8, 8), 10)
    assert plain.params == 144 + 4608 + 32 + 64 + 330


def test_the_strategy_learns_and_samples_too(docs):
    made = plugins.load(str(docs / "examples" / "strategy.py"), "strategy")
    assert isinstance(made(GRID), Strategy)
    means = {}
    for name in ("file", "random"):
        strategies = [made(GRID, seed=seed) if name == "file" else "random" for seed in range(8)]
        found = [detol.optimize(GRID, hill, s, trials=60, seed=seed) for seed, s in enumerate(strategies)]
        means[name] = np.mean([each.best.score for each in found])
    assert means["file"] > means["random"]
    origins = [trial.candidate.origin for each in found[:1] for trial in each.trials]
    assert set(origins) == {Origin.SAMPLE}
    near = detol.optimize(GRID, hill, made(GRID, seed=1, elite=1), trials=60)
    mutated = [trial for trial in near.trials if trial.candidate.origin is Origin.MUTATE]
    assert 30 < len(mutated) < 60
    for trial in mutated:
        parent = near.trials[trial.candidate.parents[0]]
        changed = [n for n in "abcd" if parent.candidate.decisions[n] != trial.candidate.decisions[n]]
        assert len(changed) == 1
        assert parent.score == max(t.score for t in near.trials[: trial.number])


def trial(number, curve, state=State.RUNNING):
    candidate = Candidate(Decisions(a=number), GRID.decode({"a": 0, "b": 0, "c": 0, "d": 0}), Origin.SAMPLE)
    reports = tuple(Report(epoch, {"score": value}) for epoch, value in enumerate(curve, start=1))
    return Trial(number, candidate, state, 9, reports=reports, curve=tuple(curve))


def test_the_stopping_rule(docs):
    rule = plugins.load(str(docs / "examples" / "stopper.py"), "stopper")(epochs=4, margin=0.2)
    assert isinstance(rule, Stopper)
    best = trial(0, [0.5, 0.8, 0.9, 0.95], State.COMPLETED)
    poor = [0.1, 0.5, 0.55, 0.6]
    said = [rule.judge(trial(1, poor[:epoch]), [best]) for epoch in range(1, 5)]
    assert said == [Verdict.CONTINUE, Verdict.STOP, Verdict.STOP, Verdict.CONTINUE]  # grace first, the end last
    assert rule.judge(trial(1, [0.1, 0.61]), [best]) is Verdict.CONTINUE
    assert rule.judge(trial(1, poor[:2]), []) is Verdict.CONTINUE
    assert rule.judge(trial(1, poor[:2]), [trial(2, [0.9])]) is Verdict.CONTINUE  # it has not come so far


def test_all_three_at_the_command_line(folder, capsys):
    files = {kind: f"docs/examples/{name}.py" for kind, name in
             (("--space", "space"), ("--strategy", "strategy"), ("--stop", "stopper"))}  # fmt: skip
    given = [word for pair in files.items() for word in pair]
    more = ["--set", "stop.margin=0.001", "--set", "strategy.elite=2", "--set", "stop.grace=1", "--trials", "5",
            "--epochs", "2", "--executor", "inline", "--tracking", "off", "--json"]  # fmt: skip
    assert cli.run(["search", "--data", "digits", *given, *more]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["trials"] == 5
    assert 0 < summary["stopped"] < 5
    assert summary["best"]["score"] > 0.5
    assert summary["reference"]
