"""Answers by isomorphism: the same network under other names of its nodes, and what its weights are good for then."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import detol
from detol.graph.build import build
from detol.graph.ops import op
from detol.graph.topology import Topology
from detol.handover import export_trial
from detol.search.answer import begun
from detol.search.history import copy
from detol.search.records import Candidate, Objective, Origin, Report, State, Trial
from detol.search.reuse import Reuse
from detol.search.spared import CHECKPOINT
from detol.spaces import catalogue
from detol.spaces.decisions import Decisions

SPACE = catalogue.load("nasbench201")
EDGES = ("edge_0_1", "edge_0_2", "edge_1_2", "edge_0_3", "edge_1_3", "edge_2_3")
OBJECTIVES = (Objective("m"),)


def cell(**operations: str) -> Decisions:
    return Decisions({name: operations.get(name, "none") for name in EDGES})


# The same two layers in a row, by way of node 1 and of node 2.
ONE = cell(edge_0_1="nor_conv_3x3", edge_1_3="nor_conv_1x1")
OTHER = cell(edge_0_2="nor_conv_3x3", edge_2_3="nor_conv_1x1")
CHILD = cell(edge_0_2="nor_conv_3x3", edge_2_3="nor_conv_3x3")


class Listed:
    """Proposes what it was given, one candidate after the other."""

    def __init__(self, *rows: tuple[Decisions, tuple[int, ...]]) -> None:
        self.rows = list(rows)

    def ask(self, count: int) -> list[Candidate]:
        made = []
        if self.rows:
            decisions, parents = self.rows.pop(0)
            made.append(Candidate(decisions, SPACE.decode(decisions), Origin.SAMPLE, parents))
        return made

    def tell(self, trials: object) -> None:
        pass


@pytest.mark.parametrize("rule", ["match", "morph"])
def test_the_child_of_an_answered_trial_inherits_and_the_winner_is_tested_and_exported(
    rule: str, tmp_path: Path
) -> None:
    one, other = (set(build(SPACE.decode(d), (1, 8, 8), 2).state_dict()) for d in (ONE, OTHER))
    assert one != other  # otherwise nothing is tested here
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (90, 1, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "made.npz", x=x, y=(x.mean(axis=(1, 2, 3)) > 127).astype(np.int64))
    common = {
        "space": "nasbench201", "epochs": 1, "executor": "inline", "tracking": "off", "device": "cpu", "workers": 1,
        "references": False, "stop": "none", "db": str(tmp_path / "r.db"), "warm": ("off",),
    }  # fmt: skip
    data = str(tmp_path / "made.npz")
    detol.search(data, strategy=Listed((ONE, ())), trials=1, name="first", **common)  # type: ignore[arg-type]
    second = Listed((OTHER, ()), (CHILD, (0,)))
    result = detol.search(data, strategy=second, trials=2, name="second", inherit=rule, **common)  # type: ignore[arg-type]
    answered, child = result.trials[:2]
    assert answered.reused == "first/0"
    assert child.state is State.COMPLETED, child.reason
    assert child.inherited == "0"
    assert float(child.extra["inherited"]) > 0
    assert result.test
    certificate = export_trial("second/0", tmp_path / "best", ("torch",), db=str(tmp_path / "r.db"))
    assert certificate["score"]["difference"] <= certificate["score"]["tolerance"]


def named(middle: str) -> Candidate:
    topology = Topology(
        {"input": op("input"), middle: op("linear", features=4), "output": op("output")},
        [("input", middle), (middle, "output")],
    )
    return Candidate(Decisions(width=4), topology, Origin.SAMPLE)


def trial(middle: str, epoch: int, state: State, **changes: object) -> Trial:
    reports = tuple(Report(n, {"m": n / 10}) for n in range(1, epoch + 1))
    curve = tuple(n / 10 for n in range(1, epoch + 1))
    made = Trial(0, named(middle), state, 4, reports=reports, curve=curve, scores=curve[-1:] or None)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("middle", "expected"), [("a", State.RUNNING), ("b", None)])
def test_a_checkpoint_of_other_names_is_not_gone_on_from(middle: str, expected: State | None) -> None:
    resting = trial("a", 2, State.PAUSED, weights="weights/x/0-2-00000000.checkpoint", reused="x/0")
    resting = replace(resting, extra={CHECKPOINT: 2})
    new = trial(middle, 0, State.RUNNING)
    found = begun(new, [resting], OBJECTIVES, rests=lambda _: False, at_hand=lambda _: True)
    assert (found.state if found else None) == expected


def test_a_repeated_search_keeps_the_names_of_the_weights() -> None:
    past = trial("a", 4, State.COMPLETED, weights="weights/x/0.safetensors", reused="x/0")
    copied = copy(past, named("b"), "twin")
    assert copied is not None
    assert copied.weights == past.weights
    assert copied.candidate.topology == past.candidate.topology


@pytest.mark.parametrize(("middle", "kept"), [("a", "weights/x/0.safetensors"), ("b", "")])
def test_who_waited_for_an_answer_takes_weights_of_its_own_names_alone(middle: str, kept: str) -> None:
    """Its topology is in the database by then, and is not written again."""
    finished: list[Trial] = []
    ledger = SimpleNamespace(resume=lambda number: None, finish=finished.append)
    parts = (SimpleNamespace(), SimpleNamespace(drop=lambda trial: None), ledger, SimpleNamespace(now=lambda: 0.0))
    reuse = Reuse(SimpleNamespace(), SimpleNamespace(), SimpleNamespace(), *parts)  # type: ignore[arg-type]
    waiting = trial(middle, 0, State.RUNNING)
    found = replace(trial("a", 4, State.COMPLETED, weights="weights/x/0.safetensors"), reused="x/0")
    assert reuse._took(found, waiting)
    assert finished[0].candidate is waiting.candidate
    assert finished[0].weights == kept
