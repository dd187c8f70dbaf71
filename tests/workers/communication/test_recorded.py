import pytest


@pytest.mark.parametrize("parts", ["1", "2"])
def test_ranks_that_record_their_steps_train_as_eager_ones(two, parts):
    first, second = (answers["recorded"][parts] for answers in two)
    assert first["kind"] == second["kind"] == "graph"
    assert first["model"] == second["model"]
    for answers in (first, second):
        eager, graph = answers["curves"]
        assert len(graph) == 3
        for found, expected in zip(graph, eager, strict=True):
            assert found == pytest.approx(expected, rel=1e-3)
        assert answers["numbers"][1] == pytest.approx(answers["numbers"][0], rel=1e-2, abs=1e-4)
