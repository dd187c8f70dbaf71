from math import prod

import numpy as np
import pytest

from detol.graph.cost import cost, layers
from detol.scaling.work import Work
from detol.spaces import catalogue


@pytest.mark.parametrize(
    ("space", "shape"), [("image_cell", (3, 16, 16)), ("nasbench201", (3, 32, 32)), ("tabular", (20,))]
)
def test_layers_add_up_to_the_cost_of_the_network(space, shape):
    found = catalogue.load(space)
    rng = np.random.default_rng(0)
    for _ in range(5):
        topology = found.decode(found.sample(rng))
        whole = cost(topology, shape, 10)
        work = Work.of(topology, shape, 10, value_bytes=1)
        assert work.params == whole.params
        assert work.multiply_adds == whole.multiply_adds
        assert 4 * (prod(shape) + sum(layer.values for layer in work.layers)) == whole.activation_bytes
        assert sum(p.multiply_adds for layer in work.layers if (p := layer.product)) == whole.multiply_adds
        assert work.sample_bytes == prod(shape)
        assert tuple(layers(topology, shape, 10)) == work.layers
        assert sum(size for size, _ in work.buckets) == work.gradient_bytes == 4 * whole.params
