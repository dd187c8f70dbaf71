"""Gradients are exchanged bucket by bucket beside the backward pass; another rank is played by doubling a message."""

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from detol.workers.stepping.exchange import Exchange
from detol.workers.stepping.shadow import Shadow

FLOAT = 4


class Wire:
    """Takes note of what is sent, and when gradients come."""

    def __init__(self):
        self.log = []

    def all_reduce(self, flat, group, async_op):
        assert (group, async_op) == ("ranks", True)
        self.log.append(("sent", flat.numel()))
        flat.mul_(2)
        return SimpleNamespace(wait=lambda: self.log.append(("waited", flat.numel())))

    def watch(self, model):
        for name, parameter in model.named_parameters():
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: self.log.append(("came", name)))


@pytest.fixture
def wire(monkeypatch):
    wire = Wire()
    monkeypatch.setattr("detol.workers.stepping.exchange.dist.all_reduce", wire.all_reduce)
    return wire


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def called(model):
    return SimpleNamespace(module=model, process_group="ranks")


def backward(model, seed=1):
    generator = torch.Generator().manual_seed(seed)
    model(torch.randn(7, 3, generator=generator)).square().sum().backward()


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("bucket", "first"), [(1, 1), (60, 20), (10**6, 10**6)])
def test_the_gradients_are_the_sums_over_the_ranks(wire, bucket, first, parts):
    plain, model = network(), network()
    exchange = Exchange(called(model), bucket=bucket, first=first)
    for step in range(2):
        for part in range(parts):
            backward(plain, 10 * step + part)
        with exchange.beside(parts):
            for part in range(parts):
                backward(model, 10 * step + part)
        for found, alone in zip(gradients(model), gradients(plain), strict=True):
            torch.testing.assert_close(found, 2 * alone)
        plain.zero_grad()
        model.zero_grad()  # to none, as the optimiser clears them
    sent = [size for what, size in wire.log if what == "sent"]
    assert sum(sent) == 2 * sum(p.numel() for p in model.parameters())


def test_a_bucket_is_sent_as_soon_as_it_is_full_the_last_layers_first(wire):
    model = network()
    wire.watch(model)  # before the exchange: what comes is seen first
    exchange = Exchange(called(model), bucket=20 * FLOAT, first=2 * FLOAT)
    with exchange.beside(1):
        backward(model)
    # From the last parameter: 2 values, then 10 and 5 and 20, then 4 and 12.
    assert [size for what, size in wire.log if what == "sent"] == [2, 35, 16]
    assert wire.log.index(("sent", 35)) < wire.log.index(("came", "0.weight"))
    assert wire.log.index(("waited", 2)) > wire.log.index(("sent", 16))


def test_buckets_go_in_one_order_though_they_fill_in_another(wire):
    model = nn.ParameterList([nn.Parameter(torch.ones(n)) for n in (1, 2, 3)])
    exchange = Exchange(called(model), bucket=1, first=1)
    with exchange.beside(1):  # the one that is to go first comes last
        for index in (0, 1, 2):
            model[index].sum().backward()
    assert [size for what, size in wire.log if what == "sent"] == [3, 2, 1]


def test_a_parameter_without_a_gradient_is_an_error_and_leaves_nothing_behind(wire):
    model = nn.ParameterList([nn.Parameter(torch.ones(n)) for n in (1, 2)])
    exchange = Exchange(called(model), bucket=1, first=1)
    with pytest.raises(RuntimeError, match="a parameter has no gradient"), exchange.beside(1):
        model[1].sum().backward()
    model.zero_grad()
    with exchange.beside(1):
        (model[0].sum() + 3 * model[1].sum()).backward()
    assert [parameter.grad.tolist() for parameter in model] == [[2.0], [6.0, 6.0]]


def test_outside_nothing_is_sent(wire):
    model = network()
    exchange = Exchange(called(model))
    backward(model)
    gone, hooks = weakref.ref(exchange), [len(p._post_accumulate_grad_hooks) for p in model.parameters()]
    assert hooks == [1] * 6
    del exchange  # the network lives on: its hooks neither hold on to the exchange nor stay
    assert gone() is None
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    backward(model)
    assert wire.log == []


def test_short_copies_are_made_by_bucket_so_that_sending_begins_early(wire):
    model = nn.ParameterList([nn.Parameter(torch.full((3, 3), 0.5)) for _ in range(6)])
    wire.watch(model)
    exchange = Exchange(called(model), bucket=3 * 9 * FLOAT, first=1)
    groups = exchange.buckets(model.parameters())
    assert [[id(w) for w in group] for group in groups] == [
        [id(model[5])],
        [id(model[index]) for index in (2, 3, 4)],
        [id(model[index]) for index in (0, 1)],
    ]
    shadow = Shadow(groups, torch.bfloat16)
    with exchange.beside(1):
        x = torch.ones(2, 3, dtype=torch.bfloat16)
        for weight in model:
            x = x @ shadow(weight)
        x.float().sum().backward()
    sent = [size for what, size in wire.log if what == "sent"]
    assert sent == [9, 27, 18]
    assert wire.log.index(("sent", 9)) < wire.log.index(("came", "4"))
    assert wire.log.index(("sent", 27)) < wire.log.index(("came", "1"))


def test_short_copies_let_gradients_come_group_by_group(wire):
    weights = [torch.full((3, 3), 0.5, requires_grad=True) for _ in range(4)]
    came = []
    for index, weight in enumerate(weights):
        weight.register_post_accumulate_grad_hook(lambda _, index=index: came.append(index))
    shadow = Shadow([weights[:2], weights[2:]], torch.bfloat16)
    seen = []
    x = torch.ones(2, 3, dtype=torch.bfloat16)
    for weight in weights:
        copy = shadow(weight)
        assert copy.dtype == torch.bfloat16
        x = x @ copy
        if weight is weights[1]:
            x.register_hook(lambda _: seen.append(sorted(came)))
    x.float().sum().backward()
    assert seen == [[2, 3]]  # before the layers in front of them go on
    assert sorted(came) == [0, 1, 2, 3]
    # As by one product in float32: all values are exact in both formats.
    exact = [torch.full((3, 3), 0.5, requires_grad=True) for _ in range(4)]
    torch.ones(2, 3).mm(exact[0]).mm(exact[1]).mm(exact[2]).mm(exact[3]).sum().backward()
    for found, expected in zip(weights, exact, strict=True):
        torch.testing.assert_close(found.grad, expected.grad)
    other = torch.ones(1)
    assert shadow(other) is other
