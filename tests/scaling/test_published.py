"""The networks against numbers published elsewhere, and their limits of scaling."""

import pytest

from detol.scaling.answer import STRONG, WEAK, plan
from detol.scaling.presets import preset
from detol.scaling.published import BATCHES, network
from detol.scaling.step import COMMUNICATION, step

# netscope and Caffe's model zoo: bvlc_alexnet 60,965,224 parameters, 724 M multiply-adds.
ALEXNET = (60_965_224, 724.4e6)


def test_alexnet_is_the_published_one():
    alexnet = network("alexnet")
    products = [layer.product for layer in alexnet.layers if layer.product]
    assert alexnet.params == ALEXNET[0]
    assert alexnet.multiply_adds == pytest.approx(ALEXNET[1], rel=1e-3)
    assert [sum(p.flat is flat for p in products) for flat in (False, True)] == [5, 3]
    # Keuper and Pfreundt 2016, table 1: about 250 MB in 32 bit.
    assert alexnet.gradient_bytes / 1e6 == pytest.approx(250, rel=0.03)


def test_googlenet_is_the_published_one():
    googlenet = network("googlenet")
    convolutions = [layer for layer in googlenet.layers if layer.product and not layer.product.flat]
    assert len(convolutions) == 59  # the same table counts those of the two auxiliary classifiers as well
    assert googlenet.gradient_bytes / 1e6 == pytest.approx(50, rel=0.08)
    # Szegedy et al. 2014, table 1: 1,502 M operations in the main branch; netscope 1.6 G with the first layers whole.
    assert googlenet.multiply_adds == pytest.approx(1.59e9, rel=0.01)
    # bvlc_googlenet as it is deployed, without the auxiliary classifiers: 6,998,552 parameters.
    auxiliary = sum((channels * 128 + 128) + (2048 * 1024 + 1024) + (1024 * 1000 + 1000) for channels in (512, 528))
    assert googlenet.params - auxiliary == 6_998_552


@pytest.mark.parametrize(("name", "seconds"), [("alexnet", 0.9), ("googlenet", 0.36)])
def test_the_k80_takes_the_published_seconds_of_an_iteration(name, seconds):
    assert step(network(name), preset("fdr-k80"), BATCHES[name], 1).seconds == pytest.approx(seconds, rel=0.05)


def test_the_titan_takes_the_published_seconds_of_an_iteration():
    assert step(network("alexnet"), preset("fdr-titanx"), 256, 1).seconds == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("name", ["alexnet", "googlenet"])
@pytest.mark.parametrize("machine", ["fdr-k80", "fdr-titanx"])
def test_no_strong_scaling_beyond_the_batch(name, machine):
    found = plan(network(name), preset(machine), batch=BATCHES[name], mode=STRONG)
    assert found.by_batch == {"alexnet": 256, "googlenet": 32}[name]
    at_limit, beyond = (step(network(name), preset(machine), BATCHES[name], found.by_batch * k) for k in (1, 2))
    assert beyond.seconds == at_limit.seconds
    assert found.useful <= found.by_batch


@pytest.mark.parametrize("machine", ["fdr-k80", "fdr-titanx"])
@pytest.mark.parametrize("name", ["alexnet", "googlenet"])
def test_communication_stalls_within_a_few_dozen_nodes(name, machine):
    found = plan(network(name), preset(machine), batch=BATCHES[name], mode=STRONG)
    assert found.stalls is not None
    assert 2 <= found.stalls <= 36
    if name == "alexnet":  # 250 MB: long before its batch of 256 ends it
        assert found.bound == COMMUNICATION
        assert step(found.work, found.machine, 256, 64).bound == COMMUNICATION


def test_compression_moves_the_stall_further_out():
    plans = [plan(network("alexnet"), preset("fdr-k80"), batch=256, compression=times) for times in (1, 2, 100)]
    assert plans[0].useful < plans[1].useful < plans[2].useful
    assert plans[2].bound != COMMUNICATION


def test_weak_scaling_of_a_whole_batch_for_each_rank_goes_on():
    found = plan(network("googlenet"), preset("fdr-k80"), batch=32, mode=WEAK, widths=[1, 64])
    assert found.by_batch is None
    assert found.rows[-1].efficiency > 0.95
    assert found.rows[-1].step.batch == 64 * 32
