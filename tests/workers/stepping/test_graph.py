import contextlib
import dataclasses
import types

import pytest
import torch
import torch._dynamo
from torch.nn.parallel import DistributedDataParallel

from detol.errors import OutOfMemory, UsageError, WorkerLost
from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.data.dataset import Split
from detol.workers.step_way import way
from detol.workers.stepping import Eager, facts
from detol.workers.stepping.blocks import Shared, blocks_of
from detol.workers.stepping.choose import _eager
from detol.workers.stepping.compiled import SHARE, Compiler
from detol.workers.stepping.graph import Graph
from detol.workers.stepping.recorder import Rerun
from detol.workers.tensors import load
from detol.workers.train import Training

NETWORK = chain(
    op("conv", channels=4),
    op("mbconv", expand=2),
    op("conv", channels=6, stride=2, order="pre"),
    op("sepconv", channels=4, norm=False),
    op("flatten"),
    op("linear", features=8, dropout=0.2),
)
RECIPES = {
    "sgd": Recipe(augment="flip,crop", batch_size=32),
    "plain sgd": Recipe(momentum=0.0, nesterov=False, batch_size=32),
    "adamw": Recipe(optimiser="adamw", learning_rate=3e-3, batch_size=32),
    "bfloat16": Recipe(precision="bfloat16", batch_size=32),
    "float16": Recipe(precision="float16", batch_size=32),
    "parts": Recipe(accumulate=3, batch_size=32),
    "averaged": Recipe(averaging=0.9, batch_size=32),
    "growing": Recipe(schedule="grow_batch", step_factor=2, max_batch=64, warmup=0.0, batch_size=16),
}


@pytest.fixture(scope="module")
def few(digits):
    """Returns digits cut to 101 samples (batches of two sizes), as tensors."""
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:101], digits.train.y[:101])))


def training(data, recipe, graph=True, network=NETWORK, recorder=None, compiler=None, **options):
    made = Training(network, data, recipe, epochs=3, seed=3, **options)
    if graph:
        learner = made._learner()
        made._step = Graph(learner, recorder or Rerun(), compiler, parts=recipe.accumulate)
    return made


def curve(made):
    return [dict(report.metrics) for report in made.reports()]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recorded_training_is_the_eager_one(few, name):
    recipe = RECIPES[name]
    eager, graph = training(few, recipe, graph=False), training(few, recipe)
    for found, expected in zip(curve(graph), curve(eager), strict=True):
        # The learning rate of a recorded step is a float32 on the device.
        assert found == pytest.approx(expected, rel=1e-4)
    assert (graph._step.kind, graph._step.why) == ("graph", "")
    for name, tensor in eager.model.state_dict().items():
        torch.testing.assert_close(graph.model.state_dict()[name], tensor, rtol=1e-3, atol=1e-4, msg=name)


def test_recording_leaves_no_trace(few):
    made = training(few, Recipe(batch_size=32))
    before = {name: tensor.clone() for name, tensor in made.model.state_dict().items()}
    drawn = torch.get_rng_state()

    class Idle(Rerun):
        def record(self, work):
            return lambda: None

    made._step._recorder = Idle()
    made._train(1)
    for name, tensor in made.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(not tensor.any() for tensor in made._optimiser.tensors().values())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_the_group_is_broken_off_before_the_device_is_waited_for(few):
    """A graph that runs cannot be destroyed, and what runs waits for the rank that is gone."""
    said = []

    class Told(Rerun):
        def wait(self):
            said.append("device")

    step = training(few, Recipe(batch_size=32), recorder=Told())._step
    step._learner.group.break_off = lambda: said.append("group")
    step.break_off()
    assert said == []  # alone: nothing waits for others
    step._exchange = object()
    step.break_off()
    assert said == ["group", "device"]


def test_what_was_let_go_of_is_recorded_anew(few):
    said = []

    class Told(Rerun):
        def record(self, work):
            said.append("recorded")
            return work

        def let_go(self):
            said.append("let go of")

    made, other = training(few, Recipe(batch_size=32), recorder=Told()), training(few, Recipe(batch_size=32))
    found = [next(made.reports()), next(other.reports())]
    made._step.let_go()
    assert made._step._recorded == {}
    found += [next(made.reports()), next(other.reports())]
    assert [report.metrics for report in found[::2]] == [report.metrics for report in found[1::2]]
    assert said == ["recorded", "recorded", "let go of", "recorded", "recorded"]


def test_a_step_is_broken_off_before_it_is_let_go_of(few):
    made = training(few, Recipe(batch_size=32))
    step, said = made._step, []
    step.break_off = lambda: said.append(made._step is step)
    with pytest.raises(WorkerLost, match="gone"):  # alone there is nobody to go on with
        made.survive(WorkerLost("gone"))
    assert said == [True]
    assert made._step is not step


@pytest.mark.parametrize(
    ("backend", "recipe", "why"),
    [
        ("nccl", Recipe(), ""),
        ("gloo", Recipe(), "2 ranks exchange gradients through the host"),
        ("nccl", Recipe(communication="fp16"), "2 ranks exchange more than plain gradients"),
        ("nccl", Recipe(sync_norm=True), "2 ranks exchange more than plain gradients"),
    ],
)
@pytest.mark.parametrize("way", ["auto", "graph"])
def test_steps_of_several_ranks_are_recorded_where_plain_gradients_travel_by_nccl(
    few, monkeypatch, way, backend, recipe, why
):
    wrapped = DistributedDataParallel.__new__(DistributedDataParallel)
    torch.nn.Module.__init__(wrapped)
    wrapped.process_group = None
    monkeypatch.setattr("torch.distributed.get_backend", lambda _: backend)
    made = training(few, Recipe(batch_size=32))._learner()
    ranks = types.SimpleNamespace(width=2)
    on_gpu = types.SimpleNamespace(device=torch.device("cuda"))
    learner = dataclasses.replace(made, called=wrapped, recipe=recipe, group=ranks, data=on_gpu)
    assert _eager(learner, way) == why
    assert _eager(learner, "eager") == "asked for"


def test_there_is_one_recording_for_each_size_of_batch(few):
    made = training(few, Recipe(batch_size=32))
    curve(made)
    assert sorted(made._step._recorded) == [25, 26]  # 101 samples in 4 batches


class Broken(Rerun):
    """Cannot record, as when an operation waits for the device."""

    def __init__(self, message):
        self.message = message

    def record(self, work):
        work()
        raise RuntimeError(self.message)


def test_what_cannot_be_recorded_is_done_eagerly_and_says_why(few):
    recipe = Recipe(batch_size=32)
    network = chain(op("conv", channels=4))
    recorder = Broken("operation not permitted when stream is capturing\nmore")
    made = training(few, recipe, recorder=recorder, network=network)
    found = curve(made)
    assert found == curve(training(few, recipe, graph=False, network=network))
    assert made._step.kind == "eager"
    assert "cannot be recorded: operation not permitted when stream is capturing" in made._step.why


def test_a_step_that_fails_half_way_holds_on_to_nothing(few, monkeypatch):
    def halfway(learner, samples, draws, *_):
        learner.loss(samples, draws)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("detol.workers.stepping.graph.backward", halfway)
    network = chain(op("conv", channels=4, order="pre"))
    made = training(few, Recipe(batch_size=32, precision="bfloat16"), network=network)
    next(made.reports())
    assert made._step.kind == "eager"
    assert (made._step._shadow._copies, made._step._shared._made) == ({}, {})


class Full(Rerun):
    """Has memory for one recording; the other size of batch, at the end of an epoch, is one too many."""

    def __init__(self):
        self.held = 0

    def record(self, work):
        self.held += 1
        if self.held > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return work

    def let_go(self):
        self.held = 0


def test_where_memory_does_not_suffice_for_recorded_steps_they_are_taken_eagerly(few):
    recorder = Full()
    assert len(few.train) % 32
    made = training(few, Recipe(batch_size=32), recorder=recorder)
    expected = curve(training(few, Recipe(batch_size=32), graph=False))
    for found, eager in zip(curve(made), expected, strict=True):
        assert found == pytest.approx(eager, rel=1e-4)
    assert (made._step.kind, made._step.why) == ("eager", "memory does not suffice for recorded steps")
    assert recorder.held == 0


def test_memory_that_runs_out_in_an_exchange_ends_the_step_since_other_ranks_wait(few):
    made = training(few, Recipe(batch_size=32), recorder=Broken("CUDA out of memory. Tried to allocate 2 GiB"))
    made._step._exchange = types.SimpleNamespace(beside=lambda parts: contextlib.nullcontext())
    with pytest.raises(OutOfMemory):
        curve(made)


def test_a_remedy_is_sought_when_nothing_recorded_keeps_memory(few, monkeypatch):
    recorder = Full()
    made = training(few, Recipe(batch_size=32), recorder=recorder)
    record = recorder.record

    def taken(work):
        """Return what runs out of memory when it is done again, as where another process has taken it."""
        record(work)

        def again():
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

        return again

    monkeypatch.setattr(recorder, "record", taken)
    monkeypatch.setattr(made._footprint, "advice", lambda: f"{recorder.held} held")
    with pytest.raises(OutOfMemory, match="^0 held: RuntimeError: CUDA out of memory"):
        curve(made)


def test_a_paused_training_goes_on_recorded(few):
    recipe = RECIPES["float16"]
    whole = curve(training(few, recipe))
    first = training(few, recipe, until=2)
    begun = curve(first)
    second = training(few, recipe, checkpoint=first.checkpoint())
    assert begun + curve(second) == whole


def test_what_is_recorded_for_the_trial(few):
    device = torch.device("cuda")
    made = training(few, Recipe(batch_size=32))
    curve(made)
    found = facts(made._step, device)
    assert (found["step"], found["blocks"]) == ("graph", "0 of 7 compiled")
    assert found["setup_seconds"] > 0
    assert facts(Eager(made._learner(), why="2 ranks"), device) == {"step": "eager: 2 ranks"}
    assert facts(made._step, torch.device("cpu")) == {}


def test_an_unknown_way_is_refused():
    assert way({}) == "auto"
    assert way({"DETOL_STEP": "graph"}) == "graph"
    with pytest.raises(UsageError, match=r"DETOL_STEP.*graph"):
        way({"DETOL_STEP": "grpah"})


def keys(network, data):
    made = training(data, Recipe(batch_size=32), network=network)
    next(made.reports())
    return set(made._step._keys)


def test_equal_layers_of_different_candidates_are_one_block(few):
    conv = op("conv", channels=4, order="pre")
    first = keys(chain(op("conv", channels=4), conv, conv), few)
    second = keys(chain(op("conv", channels=4), conv, op("pool"), conv, conv), few)
    assert len(first) == 3  # the stem, both convolutions, the head
    assert first <= second


def test_blocks_are_chains_of_known_layers(few):
    model = training(few, Recipe()).model
    assert [[spec[0] for spec in block.specs] for block in blocks_of(model).values()] == [
        ["conv2d", "norm", "relu"],
        ["conv2d", "norm", "relu", "conv2d", "norm", "relu", "conv2d", "norm"],  # mbconv
        ["conv2d", "norm"],  # what comes before it is no part of it: others may read it as well
        ["conv2d", "conv2d", "relu"],
        ["linear"],  # dropout belongs to no block, so the chain around it is taken apart
        ["norm"],
        ["linear"],
    ]


def test_an_activation_is_computed_once_for_all_that_read_the_same_tensor():
    shared = Shared()
    x = torch.randn(3, requires_grad=True)
    first = shared("relu", x)
    assert torch.equal(first, x.relu())
    assert shared("relu", x) is first
    assert shared("tanh", x) is not first
    assert shared("", x) is x
    for _ in range(5):  # tensors that come and go at the same place in memory
        other = torch.randn(3)
        assert torch.equal(shared("relu", other), other.relu())
        del other
    shared.clear()
    assert shared("relu", x) is not first


class Clock:
    """Seconds that go on by one at each look."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def counting(monkeypatch):
    """Returns a compiler that compiles nothing, and counts."""
    monkeypatch.setattr("detol.workers.stepping.compiled._try", lambda *_: None)
    clock = Clock()
    compiler = Compiler("eager", clock)
    return compiler, clock


def test_within_a_budget_a_block_is_compiled_for_the_second_candidate_that_has_it(few, counting):
    compiler, clock = counting
    found = keys(chain(op("conv", channels=4), op("conv", channels=4)), few)
    cpu = torch.device("cpu")
    compiler.prepare(found, 32, cpu, budget=True)
    assert not compiler.made
    clock.now += 1000
    compiler.prepare(found, 32, cpu, budget=True)
    assert set(compiler.made) == found


def test_compilation_stays_within_its_budget(few, counting):
    compiler, clock = counting
    found = keys(NETWORK, few)
    cpu = torch.device("cpu")
    compiler.prepare(found, 32, cpu, budget=True)
    for _ in range(50):
        clock.now += 5
        compiler.prepare(found, 32, cpu, budget=True)
        assert compiler.seconds <= SHARE * clock.now
    assert 0 < len(compiler.made) <= len(found)


def test_asked_for_all_blocks_are_compiled_at_once(few, counting):
    compiler, _ = counting
    found = keys(NETWORK, few)
    compiler.prepare(found, 32, torch.device("cpu"), budget=False)
    assert set(compiler.made) == found


def test_a_block_that_cannot_be_compiled_stays_as_it_is(few, monkeypatch):
    def fails(*_):
        raise ValueError("no compiler here\nreally")

    monkeypatch.setattr("detol.workers.stepping.compiled._compiled", fails)
    compiler = Compiler()
    recipe = Recipe(batch_size=32)
    made = training(few, recipe, compiler=compiler)
    assert curve(made) == curve(training(few, recipe))
    assert made._step.compiled[0] == 0
    assert set(compiler.failed.values()) == {"ValueError: no compiler here really"}
    assert facts(made._step, torch.device("cuda"))["blocks_failed"] == "ValueError: no compiler here really"


def test_a_compiled_block_serves_batches_of_both_sizes_and_further_candidates(few):
    compiler = Compiler("eager")
    recipe = Recipe(batch_size=32, precision="bfloat16")
    network = chain(op("conv", channels=4, order="pre"))
    made = training(few, recipe, compiler=compiler, network=network)
    assert curve(made) == curve(training(few, recipe, network=network))
    assert made._step.compiled == (2, 2)
    taken = compiler.seconds
    with torch._dynamo.config.patch(error_on_recompile=True):
        again = training(few, dataclasses.replace(recipe, batch_size=20), compiler=compiler, network=network)
        curve(again)
    assert again._step.compiled == (2, 2)
    assert compiler.seconds == taken
