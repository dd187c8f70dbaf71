"""Measures of trained networks, against finite differences and networks whose redundancy is known."""

import json

import pytest
import torch
from torch import Tensor, nn

from detol.errors import UsageError
from detol.graph.build import build
from detol.graph.lower import lower
from detol.graph.ops import op
from detol.graph.topology import Topology, chain
from detol.workers.measures import measured
from detol.workers.measures.probe import Probe
from detol.workers.tensors import Rows, Tensors

MLP = chain(op("linear", features=6, norm=False), op("linear", features=5, norm=False))
IMAGES = lower(
    Topology(
        {
            "input": op("input"),
            "stem": op("conv", channels=4),
            "a": op("conv", channels=4),
            "b": op("conv", channels=5, kernel=1),
            "c": op("conv", channels=4, kernel=1),
            "output": op("output"),
        },
        [("input", "stem"), ("stem", "a"), ("a", "b"), ("b", "c"), ("stem", "output"), ("c", "output")],
    ),
    (3, 6, 6),
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def tensors(shape: tuple[int, ...], count: int = 90, outputs: int = 3) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, *shape, generator=generator)
    y = torch.randint(0, outputs, (count,), generator=generator)
    rows = Rows(x, y)
    shift, scale = torch.zeros(shape), torch.ones(shape)
    kind = "image" if len(shape) == 3 else "features"
    return Tensors("classification", kind, shape, outputs, rows, rows, None, shift, scale, 0.0, 1.0)


def network(topology: Topology, data: Tensors) -> nn.Module:
    torch.manual_seed(0)
    model = build(topology, data.shape, data.outputs)
    for module in model.modules():  # statistics and scales that are not those of a fresh norm
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval()


def read(name: str, model: nn.Module, topology: Topology, data: Tensors) -> dict[str, object]:
    found: dict[str, object] = json.loads(measured([name], model, topology, data)[name])
    return found


def sample_losses(probe: Probe) -> Tensor:
    losses = []
    with torch.no_grad():
        for x, y in probe.seen():
            output = probe.model(x)
            losses += [probe.loss(output[i : i + 1], y[i : i + 1]) for i in range(len(x))]
    return torch.stack(losses).double()


def test_unknown_measures_are_refused_with_near_names() -> None:
    data = tensors((7,))
    with pytest.raises(UsageError, match="channels"):
        measured(["chanels"], network(MLP, data), MLP, data)


def test_the_network_is_as_before() -> None:
    data = tensors((3, 6, 6))
    model = network(IMAGES, data).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = measured(["edges", "channels", "neurons"], model, IMAGES, data)
    assert first == measured(["edges", "channels", "neurons"], model, IMAGES, data)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert "_merge" not in vars(model)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_held_samples_are_not_seen() -> None:
    probe = Probe(network(MLP, tensors((7,))), MLP, tensors((7,)))
    seen = torch.cat([x for x, _ in probe.seen()])
    assert probe.samples == len(seen) == 60
    with torch.no_grad():
        everything = probe.loss(probe.model(probe.data.train.x), probe.data.train.y).item()
        rest = everything - sample_losses(probe).sum().item()
    assert probe.held_loss() == pytest.approx(rest / 30, rel=1e-4)


def test_the_saliency_of_an_edge_is_the_slope_of_its_gate() -> None:
    data = tensors((3, 6, 6))
    model = network(IMAGES, data)
    found = read("edges", model, IMAGES, data)
    probe = Probe(model, IMAGES, data)
    rows = found["edges"]
    assert isinstance(rows, list)
    assert {(source, target) for source, target, *_ in rows} == {
        ("stem", "a"), ("a", "b"), ("b", "c"), ("stem", "output"), ("c", "output")
    }  # fmt: skip
    for source, target, saliency, rise in rows:
        # All edges of the branch are cut together: what counts is where it enters the sum.
        place = ("c", "output") if source != "stem" or target != "output" else ("stem", "output")
        losses = []
        for gate in (1 - 1e-3, 1 + 1e-3):
            with probe.gated(lambda s, t, v, g=gate, edge=place: v * g if (s, t) == edge else v):
                losses.append(sample_losses(probe))
        slope = ((losses[1] - losses[0]) / 2e-3).abs().mean().item()
        assert saliency == pytest.approx(slope, rel=0.02, abs=1e-3)
        with probe.gated(lambda s, t, v, edge=place: v * 0 if (s, t) == edge else v):
            assert rise == pytest.approx(probe.held_loss() - found["loss"], abs=1e-3)
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)


def test_a_node_is_compared_with_an_identity() -> None:
    data = tensors((3, 6, 6))
    topology = chain(op("conv", channels=4), op("conv", channels=4, kernel=1, norm=False, activation="none"))
    model = network(topology, data)
    with torch.no_grad():
        conv = model.get_submodule("nodes").get_submodule("_2" if "_2" in dict(model.nodes.named_children()) else "2")
        conv[0].weight.copy_(torch.eye(4)[:, :, None, None])
        conv[0].bias.zero_()
    ((name, saliency, rise),) = read("edges", model, topology, data)["nodes"]  # type: ignore[misc]
    assert (name, saliency, rise) == ("2", 0, 0)  # it is an identity already


def test_the_saliency_of_a_channel_is_the_squared_slope_of_its_gate() -> None:
    data = tensors((3, 6, 6))
    model = network(IMAGES, data)
    found = read("channels", model, IMAGES, data)
    probe = Probe(model, IMAGES, data)
    saliency = found["saliency"]
    assert isinstance(saliency, dict)
    assert saliency["stem"] == saliency["c"]  # the sum ties them: one gate
    for names, unit in ((("a",), 1), (("b",), 4), (("stem", "c"), 2)):
        losses = []
        for gate in (1 - 1e-3, 1 + 1e-3):

            def closed(entered: Tensor, left: Tensor, g: float = gate, unit: int = unit) -> Tensor:
                left = left.clone()
                left[:, unit] *= g
                return left

            with probe.changed(dict.fromkeys(names, closed)):
                losses.append(sample_losses(probe))
        slope = ((losses[1] - losses[0]) / 2e-3).square().mean().item()
        assert saliency[names[0]][unit] == pytest.approx(slope, rel=0.03, abs=1e-4)


def test_scales_and_means_of_channels() -> None:
    data = tensors((3, 6, 6))
    model = network(IMAGES, data)
    found = read("channels", model, IMAGES, data)
    probe = Probe(model, IMAGES, data)
    with torch.no_grad(), probe.outputs(["a"]) as left:
        probe.model(torch.cat([x for x, _ in probe.seen()]))
    expected = left["a"].mean((0, 2, 3)).tolist()
    assert found["mean"]["a"] == pytest.approx(expected, rel=1e-3)  # type: ignore[index]
    scale = model.get_submodule("nodes.a.norm").weight.abs().tolist()  # type: ignore[union-attr]
    assert found["scale"]["a"] == pytest.approx(scale, rel=1e-4)  # type: ignore[index]


def redundant(data: Tensors) -> nn.Module:
    """Return a perceptron: unit 3 of its first layer is twice unit 0, unit 5 is constant, unit 2 is silent."""
    model = network(MLP, data)
    first = next(m for m in model.modules() if isinstance(m, nn.Linear))
    with torch.no_grad():
        first.weight[3], first.bias[3] = 2 * first.weight[0], 2 * first.bias[0]
        first.weight[5], first.bias[5] = 0.0, 1.5
        first.weight[2], first.bias[2] = 0.0, -4.0
    return model


def test_neurons_that_are_redundant_go_first_and_cost_nothing() -> None:
    data = tensors((7,))
    found = read("neurons", redundant(data), MLP, data)
    removals = found["removals"]
    assert isinstance(removals, list)
    first = {unit: (stands, factor, constant) for node, unit, stands, factor, constant in removals[:3] if node == "1"}
    twin = 3 if 3 in first else 0
    assert set(first) == {2, 5, twin}
    assert first[2] == (-1, 0, 0)
    assert first[5][0] == -1
    assert first[5][2] == pytest.approx(1.5)
    assert first[twin][:2] == (3 - twin, pytest.approx(2.0 if twin == 3 else 0.5, rel=1e-4))
    assert first[twin][2] == pytest.approx(0, abs=1e-4)
    by_count = dict(found["ladder"])  # type: ignore[call-overload]
    least = min(count for count in by_count if count >= 1)
    assert by_count[least] == pytest.approx(found["loss"], rel=1e-4) or least > 3


def test_who_stands_for_another_stays_and_layers_keep_a_part() -> None:
    data = tensors((7,))
    found = read("neurons", redundant(data), MLP, data)
    for node, width in (("1", 6), ("2", 5)):
        mine = [(unit, stands) for name, unit, stands, *_ in found["removals"] if name == node]  # type: ignore[misc]
        gone = [unit for unit, _ in mine]
        assert len(gone) == len(set(gone)) <= 0.7 * width
        assert not {stands for _, stands in mine if stands >= 0} & set(gone)


def test_units_of_a_sum_go_together_each_by_its_constant() -> None:
    data = tensors((3, 6, 6))
    found = read("neurons", network(IMAGES, data), IMAGES, data)
    rows = found["removals"]
    assert isinstance(rows, list)
    tied = [row for row in rows if row[0] in ("stem", "c")]
    assert tied
    for first, second in zip(tied[::2], tied[1::2], strict=True):
        assert {first[0], second[0]} == {"stem", "c"}
        assert first[1] == second[1]
        assert first[2] == second[2] == -1
        assert rows.index(second) == rows.index(first) + 1
    together = {number for number, row in enumerate(rows) if row[0] in ("stem", "c")}
    # No rung of the ladder stands between the two.
    assert all(count not in together or rows[count - 1] not in tied[::2] for count, _ in found["ladder"])  # type: ignore[attr-defined]


def test_what_is_learnt_is_measured_from_the_class_shares() -> None:
    data = tensors((7,), outputs=2)
    probe = Probe(network(MLP, data), MLP, data)
    target = data.train.y[probe._held]
    share = target.double().mean().item()
    entropy = -share * torch.tensor(share).log().item() - (1 - share) * torch.tensor(1 - share).log().item()
    assert probe.plain_loss == pytest.approx(entropy, rel=1e-5)
