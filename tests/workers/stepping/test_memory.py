import dataclasses
import gc
import math
import re
import weakref

import pytest
import torch

from detol.errors import OutOfMemory
from detol.graph.build import build
from detol.graph.cost import memory as cost_memory
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers import train as module
from detol.workers.data.dataset import Split
from detol.workers.evaluate import passing
from detol.workers.step import memory_faults
from detol.workers.stepping import memory, probe
from detol.workers.stepping.probe import largest, measured
from detol.workers.stepping.recompute import recompute
from detol.workers.tensors import load
from detol.workers.train import Training

CELL = chain(op("conv", channels=6), op("sepconv", channels=6), op("conv", channels=6))
NETWORK = chain(op("conv", channels=6), CELL, op("mbconv", expand=3), op("conv", channels=6), op("global_pool"))


@pytest.fixture(scope="module")
def few(digits):
    """Returns digits cut to 101 samples, as tensors."""
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:101], digits.train.y[:101])))


@pytest.fixture(autouse=True)
def _nothing_measured():
    memory.forget()
    yield
    memory.forget()


def training(data, recipe=Recipe(batch_size=32), **options):  # noqa: B008  frozen
    return Training(NETWORK, data, recipe, epochs=2, seed=1, **options)


def test_recomputed_activations_change_nothing_to_the_bit(few):
    plain, again = training(few), training(few)
    assert recompute(again.model) == 4  # two convolutions with norm and activation, the cell, the inverted bottleneck
    assert [dict(r.metrics) for r in again.reports()] == [dict(r.metrics) for r in plain.reports()]
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name


def kept(model, x):
    """Return the bytes that are kept for gradients between the forward pass and the backward one."""
    sizes = {}

    def keep(tensor):
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(x)
    return sum(sizes.values())


def test_recomputation_keeps_less():
    x = torch.randn(16, 1, 8, 8)
    plain, again = build(NETWORK, (1, 8, 8), 10), build(NETWORK, (1, 8, 8), 10)
    recompute(again)
    assert kept(again, x) < 0.6 * kept(plain, x)


def test_nodes_with_dropout_keep_what_they_have():
    model = build(chain(op("flatten"), op("linear", features=8, dropout=0.5)), (1, 8, 8), 10)
    assert recompute(model) == 0


def test_the_estimate_with_recomputation_is_lower_and_grows_with_the_batch():
    sizes = [
        [cost_memory(NETWORK, (1, 8, 8), 10, batch, recomputed=again) for again in (False, True)] for batch in (8, 64)
    ]
    assert all(again < plain for plain, again in sizes)
    assert sizes[1][1] > 4 * sizes[0][1]


def test_a_training_that_does_not_fit_recomputes_and_says_so(few, monkeypatch):
    whole = cost_memory(NETWORK, few.shape, few.outputs, 32, slots=1)
    monkeypatch.setattr(memory, "room", lambda _: whole - 1.0)
    tight = training(few)
    assert "GiB are estimated" in tight._learner().recomputed
    monkeypatch.setattr(memory, "room", lambda _: whole + 1.0)
    loose = training(few)
    assert loose._learner().recomputed == ""
    assert [dict(r.metrics) for r in tight.reports()] == [dict(r.metrics) for r in loose.reports()]


def test_memory_that_runs_out_comes_with_a_remedy(few, monkeypatch):
    def exhausted(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    half = memory.estimate(NETWORK, few.shape, few.outputs, Recipe(), 16)
    monkeypatch.setattr(memory, "room", lambda _: half)
    monkeypatch.setattr(module, "forward", exhausted)
    # By recomputation 32 may fit as well: what is advised is for what is left then.
    again = memory.estimate(NETWORK, few.shape, few.outputs, Recipe(), 16, recomputed=True)
    assert again < half
    with pytest.raises(OutOfMemory, match=r"set recipe.accumulate=2, .*CUDA out of memory"):
        list(training(few).reports())


@pytest.mark.parametrize("accumulate", [1, 2])
def test_on_a_gpu_the_remedy_is_the_largest_step_that_is_measured_to_fit(few, monkeypatch, accumulate):
    recipe = Recipe(batch_size=64, accumulate=accumulate)
    peak = measured(NETWORK, few, recipe)
    room = peak(16)
    monkeypatch.setattr(memory, "room", lambda _: room)
    made = memory.Footprint(NETWORK, few, recipe, 64 // accumulate)
    made._real = True
    found = re.fullmatch(r"set recipe.accumulate=(\d+): (\d+) samples at once fit, as measured", made.advice())
    parts, most = map(int, found.groups())
    assert 0.4 * 16 <= most <= 16
    assert parts == math.ceil(64 / most)  # of the whole batch
    assert peak(math.ceil(64 / parts)) <= room
    made._room = 1.0
    assert made.advice() == "not even 2 samples at once fit, as measured"


def test_where_nothing_can_be_measured_any_more_the_remedy_is_estimated(few, monkeypatch):
    def broken(_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    recipe = Recipe(batch_size=64, accumulate=2)
    room = memory.estimate(NETWORK, few.shape, few.outputs, recipe, 16)
    monkeypatch.setattr(memory, "room", lambda _: room)
    made = memory.Footprint(NETWORK, few, recipe, 32)
    made._real, made.why = True, ""
    monkeypatch.setattr(probe, "measured", lambda *_: broken)
    assert made.advice() == "set recipe.accumulate=4, by which a step should fit"  # a third of 64 would be 22


def test_what_a_step_that_failed_holds_is_let_go_of_before_a_remedy_is_sought():
    class Held:
        pass

    holds = []

    def step():
        held = Held()
        holds.append(weakref.ref(held))
        try:
            raise RuntimeError("capture failed")
        except RuntimeError:
            raise MemoryError("out of memory")  # noqa: B904  as an eager step does after one that was recorded

    with (
        pytest.raises(OutOfMemory, match="^gone: MemoryError: out of memory"),
        memory_faults(lambda: "gone" if holds[0]() is None else "held"),
    ):
        step()


def test_a_measured_step_corrects_later_estimates():
    recipe, half = Recipe(), Recipe(precision="bfloat16")
    before = memory.estimate(NETWORK, (1, 8, 8), 10, recipe, 32)
    memory.note(half, memory.estimate(NETWORK, (1, 8, 8), 10, half, 32), before / 2)
    assert memory.estimate(NETWORK, (1, 8, 8), 10, half, 32) == pytest.approx(before / 2)
    assert memory.estimate(NETWORK, (1, 8, 8), 10, recipe, 32) == before
    memory.note(half, memory.estimate(NETWORK, (1, 8, 8), 10, half, 32), before * 0.4)  # the worst counts
    assert memory.estimate(NETWORK, (1, 8, 8), 10, half, 32) == pytest.approx(before / 2)


@pytest.mark.parametrize(("peak", "heeded"), [(0.2, False), (0.6, True)])
def test_small_trainings_do_not_correct_the_estimates_of_large_ones(few, monkeypatch, peak, heeded):
    """Workspaces of libraries, tens of MiB, are many times what a small network takes."""
    recipe = Recipe(batch_size=32)
    whole = memory.estimate(NETWORK, few.shape, few.outputs, recipe, 32)
    monkeypatch.setattr(memory, "room", lambda _: 100 * whole)
    made = memory.Footprint(NETWORK, few, recipe, 32)
    made._real, made._before = True, 7
    share = peak * memory.LEAST * 100 / 0.5
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 7 + share * whole)
    made.note()
    expected = share if heeded else 1.0
    assert memory.estimate(NETWORK, few.shape, few.outputs, recipe, 32) == pytest.approx(expected * whole)


def test_what_torch_keeps_of_earlier_trainings_is_room(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (30 * memory.GIB, 80 * memory.GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 50 * memory.GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 10 * memory.GIB)
    assert memory.room(torch.device("cuda")) == pytest.approx(0.85 * 70 * memory.GIB)
    assert memory.room(torch.device("cpu")) == math.inf


def test_a_measured_step_grows_with_its_samples_as_the_estimate_says(few):
    peak = measured(NETWORK, few, Recipe())
    small, large = peak(16), peak(64)
    each = (large - small) / 48
    estimated = [memory.estimate(NETWORK, few.shape, few.outputs, Recipe(), count) for count in (16, 64)]
    # torch keeps what it needs alone: norms keep their input, activations their output.
    assert 0.4 < each / ((estimated[1] - estimated[0]) / 48) < 1.1


def test_a_measured_step_that_runs_out_of_memory_leaves_nothing_behind(few, monkeypatch):
    """A weak reference to a tensor lives as long as anything holds it, also in C++ where no garbage collector looks."""
    seen = []

    def exhausted(*_):
        raise MemoryError("out of memory")

    def note(_, __, output):
        seen.append(weakref.ref(output))

    monkeypatch.setattr(torch.nn.Linear, "forward", exhausted)  # the head, when all activations are there
    handle = torch.nn.modules.module.register_module_forward_hook(note)
    try:
        with pytest.raises(OutOfMemory, match="MemoryError: out of memory"):
            measured(NETWORK, few, Recipe())(16)
    finally:
        handle.remove()
    gc.collect()
    assert len(seen) > 10
    assert [reference for reference in seen if reference() is not None] == []


@pytest.mark.parametrize("room", [1.0, 40_000.0, 123_456.0, 1e6, math.inf])
def test_the_probe_finds_the_most_that_fits(few, room):
    def peak(count):
        if count > 90:
            raise OutOfMemory("too much")
        return 20_000.0 + 3_000.0 * count

    found = largest(NETWORK, few, Recipe(batch_size=64), room, peak)
    fits = [count for count in range(2, 65) if peak(count) <= room]
    assert found in (fits or [0])
    assert found >= 0.4 * max(fits, default=0)


def test_the_probe_goes_back_where_a_step_fails(few):
    tried = []

    def peak(count):
        tried.append(count)
        if count > 10:
            raise OutOfMemory("too much")
        return 1.0

    assert 5 <= largest(NETWORK, few, Recipe(batch_size=64), math.inf, peak) <= 10
    assert tried[0] == 64


def test_passes_on_an_accelerator_are_as_large_as_samples_are_small(few):
    assert passing(few) == 256
    meta = torch.zeros((), device="meta")  # stands for an accelerator
    sizes = [
        passing(dataclasses.replace(few, shift=meta, shape=shape)) for shape in ((1, 8, 8), (3, 32, 32), (3, 512, 512))
    ]
    assert sizes == [4096, 2730, 256]
