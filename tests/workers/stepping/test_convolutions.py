import dataclasses
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from detol.graph.ops import op
from detol.graph.topology import chain
from detol.search.recipe import Recipe
from detol.workers.data.dataset import Split
from detol.workers.stepping.blocks import blocks_of
from detol.workers.stepping.compiled import Compiler
from detol.workers.stepping.convolutions import PLAIN, Convolutions
from detol.workers.stepping.graph import Graph
from detol.workers.stepping.recorder import Rerun
from detol.workers.tensors import load
from detol.workers.train import Training

NETWORK = chain(op("conv", channels=4), op("conv", channels=4, order="pre"), op("conv", channels=4, stride=2))
RECIPE = Recipe(batch_size=32)
CPU = torch.device("cpu")


def right(x, weight):
    return F.conv2d(x, weight, padding=1)


def wrong(x, weight):
    return F.conv2d(x, weight.flip(2), padding=1)


def wrong_at_25(x, weight):
    return right(x, weight) * (1 + (len(x) == 25))


def breaks(x, weight):
    raise ValueError("no such instruction")


def deciding(kernel, seconds=(2.0, 1.0)):
    """Return what decides on a kernel, and is told these seconds of the library and of the kernel."""
    left = []

    def timer(work):
        work()
        left[:] = left or list(seconds)
        return left.pop(0)

    return Convolutions(kernel, lambda x, weight: x.shape[1] == weight.shape[0] == 4, timer)


@pytest.fixture(scope="module")
def few(digits):
    """Returns digits cut to 101 samples, as tensors."""
    return load(dataclasses.replace(digits, train=Split(digits.train.x[:101], digits.train.y[:101])))


@pytest.fixture
def still(monkeypatch):
    """Lets nothing be compiled."""
    monkeypatch.setattr("detol.workers.stepping.compiled._compiled", breaks)


def trained(few, decides=None):
    made = Training(NETWORK, few, RECIPE, epochs=2, seed=1)
    made._step = Graph(made._learner(), Rerun(), Compiler(), decides)
    return [dict(report.metrics) for report in made.reports()], made._step


@pytest.mark.usefixtures("still")
def test_a_kernel_that_is_right_and_faster_is_taken(few):
    used = []

    def watched(x, weight):
        used.append(tuple(weight.shape))
        return right(x, weight)

    decides = deciding(watched)
    found, step = trained(few, decides)
    assert step.own == (1, 1)  # the one of stride 1 with four channels before and behind it
    assert list(decides.faster.values()) == [2.0]
    assert len(used) > 8  # in every step
    assert found == trained(few)[0]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(
    ("kernel", "seconds", "why"),
    [
        (wrong, (2.0, 1.0), "differs"),
        (wrong_at_25, (2.0, 1.0), "differs"),
        (breaks, (2.0, 1.0), "no such instruction"),
        (right, (1.0, 2.0), ""),
    ],
)
def test_one_that_is_wrong_or_fails_or_is_slower_is_not(few, kernel, seconds, why):
    decides = deciding(kernel, seconds)
    found, step = trained(few, decides)
    assert step.own == (0, 1)
    assert [text for text in decides.why.values() if why not in text] == []
    assert bool(decides.why) == bool(why)
    assert found == trained(few)[0]


def test_the_layer_as_networks_have_it_is_the_one_that_kernels_compute(few):
    model = Training(NETWORK, few, RECIPE, epochs=1, seed=1).model
    specs = [block.specs[0] for block in blocks_of(model).values()]
    assert specs[:2] == [PLAIN, PLAIN]
    assert specs[2] != PLAIN  # of stride 2


CHECK = """
import torch
import detol.workers.stepping.triton_conv as own
torch.manual_seed(0)
for batch, inner, outer, height, width in ((3, 16, 16, 5, 7), (2, 16, 32, 8, 8), (1, 32, 16, 6, 4)):
    x = torch.randn(batch, inner, height, width).half().contiguous(memory_format=torch.channels_last)
    weight = (torch.randn(outer, inner, 3, 3) * 0.1).half().contiguous(memory_format=torch.channels_last)
    x.requires_grad_(), weight.requires_grad_()
    assert own.fits(x, weight)
    found = own.Convolution.apply(x, weight)
    gradient = torch.randn_like(found)
    ours = [found, *torch.autograd.grad(found, (x, weight), gradient)]
    exact = [one.detach().float().requires_grad_() for one in (x, weight)]
    y = torch.nn.functional.conv2d(*exact, padding=1)
    for one, other in zip(ours, [y, *torch.autograd.grad(y, exact, gradient.float())]):
        torch.testing.assert_close(one.float(), other, rtol=2e-3, atol=2e-2)
"""


def test_the_kernels_compute_convolutions():
    """Runs them in Triton's interpreter, where Triton is installed (it comes with torch for CUDA)."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
