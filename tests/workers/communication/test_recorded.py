import pytest


@pytest.mark.parametrize("case", ["1", "2", "once", "ever", "buckets"])
def test_ranks_that_record_their_steps_train_as_eager_ones(two, case):
    """In one part and in two; a recording that fails once is tried again, one that fails again is given up."""
    first, second = (answers["recorded"][case] for answers in two)
    assert first["kind"] == second["kind"] == ("eager" if case == "ever" else "graph")
    assert ("previous error during capture" in first["why"]) is (case == "ever")
    assert first["model"] == second["model"]
    for answers in (first, second):
        eager, graph = answers["curves"]
        assert len(graph) == 3
        for found, expected in zip(graph, eager, strict=True):
            assert found == pytest.approx(expected, rel=1e-3)
        assert answers["numbers"][1] == pytest.approx(answers["numbers"][0], rel=1e-2, abs=1e-4)
