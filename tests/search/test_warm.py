"""The sources of a warm start as records: checked, kept as JSON, and told apart by what they teach."""

import json
from dataclasses import replace

import pytest

from detol.search.warm import WarmRecord, WarmSource, warm_digest
from detol.spaces.decisions import Decisions

RECORDS = tuple(WarmRecord(Decisions(width=n, deep=bool(n % 2)), 1.0 / (n + 1), f"a/{n}") for n in range(4))
SOURCE = WarmSource("a", "x1:a", RECORDS, 0.5, {"tau": 0.25})


def test_a_source_survives_json():
    assert WarmSource.from_dict(json.loads(json.dumps(SOURCE.as_dict()))) == SOURCE


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_are_finite(score):
    with pytest.raises(ValueError, match="finite"):
        WarmRecord(Decisions(), score)


def test_one_record_is_no_order_and_weights_are_shares():
    with pytest.raises(ValueError, match="at least 2 records"):
        replace(SOURCE, records=RECORDS[:1])
    for weight in (0.0, 1.5, -1.0):
        with pytest.raises(ValueError, match="weight"):
            replace(SOURCE, weight=weight)


def test_the_digest_is_of_what_is_learnt_and_not_of_where_it_stands():
    before = warm_digest([SOURCE])
    assert warm_digest([]) == ""
    assert before.startswith("w1:")
    moved = tuple(replace(record, trial="b/7") for record in RECORDS)
    assert warm_digest([replace(SOURCE, search="b", facts={}, records=moved)]) == before
    other = (replace(RECORDS[0], score=0.9), *RECORDS[1:])
    changed = [replace(SOURCE, records=other), replace(SOURCE, weight=0.6), replace(SOURCE, data="x1:b")]
    assert len({before, *(warm_digest([each]) for each in changed), warm_digest([SOURCE, SOURCE])}) == 5
