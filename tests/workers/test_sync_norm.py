"""Batch norm over all ranks is torch's batch norm over the whole batch, also where the mean is large."""

import io
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from detol.workers.elastic.local import LocalRanks
from detol.workers.sync_norm import _combined

from .norms import fresh, one

ENTRY = f"{Path(__file__).with_name('norms.py')}:normed"
FAR = {"1e3": 1e3, "3e3": 3e3, "-3e4": -3e4}


def samples(*shape, mean=0.0, dtype=torch.float64, seed=0):
    """Return samples of deviation 1, and slopes of their loss."""
    generator = torch.Generator().manual_seed(seed)
    x, slopes = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return {"x": (x + mean).to(dtype), "slopes": slopes.to(dtype)}


CASES = {
    "images": samples(7, 3, 4, 4),  # 7 over 2 or 3 ranks: shards of two sizes
    "features": samples(11, 5),
    "far": samples(7, 3, 4, 4, mean=3e3),
    "plain": {**samples(8, 3, 2, 2, mean=-5.0), "affine": False, "passes": 2, "momentum": 0.5},
    "apart": {**samples(9, 2, 2, 2), "x": samples(9, 2, 2, 2)["x"] + 1e4 * torch.arange(9.0).view(9, 1, 1, 1).double()},
    "channels last": {
        name: value.contiguous(memory_format=torch.channels_last) for name, value in samples(5, 3, 4, 4).items()
    },
    **{f"32 bit, {name}": samples(48, 3, 16, 16, mean=mean, dtype=torch.float32) for name, mean in FAR.items()},
    "16 bit": samples(12, 3, 4, 4, mean=2.0, dtype=torch.bfloat16),
}


@pytest.fixture(scope="module")
def alone():
    """A group of one rank, this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
WIDTHS = [pytest.param((n, "gloo"), id=f"{n} ranks") for n in (1, 2, 3)]


@pytest.fixture(scope="module", params=[*WIDTHS, pytest.param((2, "nccl"), id="2 gpus", marks=gpus)])
def found(request, alone):
    """What the ranks found of each case: samples and their gradients in order, those of the weights summed."""
    width, backend = request.param
    if width == 1:
        told = [[one(alone, slice(None), **case) for case in CASES.values()]]
    else:
        ranks = LocalRanks(width, ENTRY, list(CASES.values()), backend=backend)
        told = [[] for _ in range(width)]
        try:
            for said in ranks:
                assert not said.failure, said.failure
                if not said.done:
                    told[said.rank].append(torch.load(io.BytesIO(said.item)))
        finally:
            ranks.close()
    return {name: [rank[place] for rank in told] for place, name in enumerate(CASES)}


def whole(x, slopes, affine=True, momentum=0.1, passes=1):
    """Return what torch's own batch norm makes of the whole batch in 64 bit."""
    x = x.double().clone().requires_grad_(True)
    norm = fresh(x, affine, momentum)
    for _ in range(passes):
        y = norm(x)
    (y * slopes.double()).sum().backward()
    expected = {"y": y.detach(), "x": x.grad, "mean": norm.running_mean, "variance": norm.running_var}
    return expected | {name: p.grad for name, p in norm.named_parameters()}


def joined(parts, name):
    if name in ("y", "x"):
        return torch.cat([part[name] for part in parts])
    if name in ("weight", "bias"):
        return sum(part[name] for part in parts)
    assert all(torch.equal(part[name], parts[0][name]) for part in parts)  # to the bit, on each rank
    return parts[0][name]


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case["x"].dtype is torch.float64])
def test_values_gradients_and_running_numbers_are_those_of_the_whole_batch(found, case):
    expected = whole(**CASES[case])
    assert set(found[case][0]) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(
            joined(found[case], name), value, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("name", FAR)
def test_a_mean_that_is_large_against_the_deviation_costs_no_more_than_rounding(found, name):
    case = f"32 bit, {name}"
    expected = whole(**CASES[case])
    rounding = 4 * abs(FAR[name]) * torch.finfo(torch.float32).eps  # of a mean, in deviations
    for part in ("y", "x"):
        assert (joined(found[case], part) - expected[part]).abs().max() < rounding + 1e-5
    assert joined(found[case], "variance") == pytest.approx(expected["variance"], abs=1e-4)
    assert joined(found[case], "mean") == pytest.approx(expected["mean"], rel=1e-6)


def test_half_the_bits_come_back_as_such_and_are_normalised_in_32(found):
    expected, parts = whole(**CASES["16 bit"]), found["16 bit"]
    for name in ("y", "x"):
        value = joined(parts, name)
        assert value.dtype is torch.bfloat16
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-2, atol=2e-2)
    assert joined(parts, "variance") == pytest.approx(expected["variance"], rel=1e-5)
    for name in ("weight", "bias"):
        torch.testing.assert_close(joined(parts, name).double(), expected[name], rtol=1e-5, atol=1e-4)


def test_gradients_are_the_slopes_of_differences(alone):
    from detol.workers.sync_norm import _normal

    x = samples(5, 2, 3)["x"].requires_grad_(True)
    weight, bias = (
        value.double().requires_grad_(True) for value in (torch.tensor([0.5, -2.0]), torch.tensor([1.0, 3]))
    )
    assert torch.autograd.gradcheck(lambda *inputs: _normal(*inputs, 1e-5, alone)[0], (x, weight, bias))


def test_a_rank_without_samples_counts_for_nothing():
    x = samples(6, 2)["x"]
    rows = [torch.cat([x.mean(0), (x - x.mean(0)).square().sum(0), torch.tensor([6.0])]), torch.zeros(5)]
    for order in (rows, rows[::-1]):
        mean, variance, total = _combined(torch.stack([row.double() for row in order]))
        torch.testing.assert_close(mean, x.mean(0))
        torch.testing.assert_close(variance, x.var(0, correction=0))
        assert total.item() == 6


def test_one_message_each_way(alone, monkeypatch):
    sent, reduce = [], dist.all_reduce

    def counted(tensor, *arguments, **options):
        sent.append(tensor.numel())
        return reduce(tensor, *arguments, **options)

    monkeypatch.setattr(dist, "all_reduce", counted)
    one(alone, slice(None), **CASES["images"])
    assert sent == [2 * 3 + 1, 2 * 3]
