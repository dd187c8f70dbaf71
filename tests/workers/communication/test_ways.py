"""The ways to exchange gradients, against what numpy says and against plain all-reduce."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from detol.search.recipe import Recipe
from detol.workers.communication import Communication, communicate
from detol.workers.communication.sparse import TopK

RATE, SIZE = 0.1, 8 * 6


def slopes(step, rank, rows=8, columns=6):
    generator = np.random.default_rng([step, rank])
    weight = generator.normal(size=(rows, columns)).astype(np.float32).astype(float)
    return weight, generator.normal(size=5).astype(np.float32).astype(float)


def parameters(steps):
    return np.array([step["parameters"] for step in steps])


def mean_gradient(step, width, **size):
    return np.mean([np.concatenate([part.ravel() for part in slopes(step, rank, **size)]) for rank in range(width)], 0)


def start(rows=8, columns=6):
    """Return the parameters before the first step, as the ranks draw them."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(rows, columns, generator=generator).flatten(), torch.randn(5, generator=generator)]
    return torch.cat(parts).double().numpy()


@pytest.fixture(params=[2, 3])
def answers(request, ranks):
    """Returns the scenario of made-up gradients on two and on three ranks."""
    return [rank["lines"] for rank in ranks[request.param]]


def test_all_ranks_walk_together(answers):
    for name, steps in answers[0].items():
        if isinstance(steps, list) and name != "local":
            assert all(rank[name] == steps for rank in answers), name


def test_plain_is_the_mean(answers):
    found = parameters(answers[0]["plain"])
    moved = np.diff(found, axis=0)
    expected = [-RATE * mean_gradient(step, len(answers)) for step in range(1, 4)]
    np.testing.assert_allclose(moved, expected, atol=1e-6)


@pytest.mark.parametrize(("way", "digits"), [("fp16", 11), ("bf16", 8)])
def test_half_the_bits_are_nearly_the_mean(answers, way, digits):
    """A rounding of each rank's part and one of the sum, to so many binary digits."""
    moved = np.diff(parameters(answers[0][way]), axis=0)
    expected = np.array([-RATE * mean_gradient(step, len(answers)) for step in range(1, 4)])
    largest = RATE * max(np.abs(part).max() for step in range(4) for r in range(3) for part in slopes(step, r))
    np.testing.assert_allclose(moved, expected, atol=2 * len(answers) * largest * 2.0**-digits)
    assert np.abs(moved - expected).max() > 1e-6


def compressed(width, nesterov, *, share=0.1, clip=3.0, momentum=0.9, decay=0.01, steps=6):
    """Return the parameters after each step of deep gradient compression, as the paper has it, in numpy."""
    begun = start()
    w, b = begun[:SIZE].reshape(8, 6), begun[SIZE:]
    velocity = {(rank, key): 0.0 for rank in range(width) for key in "wb"}
    residual = dict.fromkeys(velocity, 0.0)
    found = []
    for step in range(steps):
        sent = {"w": np.zeros_like(w), "b": np.zeros_like(b)}
        for rank in range(width):
            gw, gb = slopes(step, rank)
            norm = math.sqrt((gw**2).sum() + (gb**2).sum())
            scale = min(1.0, clip / math.sqrt(width) / norm)
            for key, gradient in (("w", gw * scale + decay * w), ("b", gb * scale)):
                u = momentum * velocity[rank, key] + gradient
                v = residual[rank, key] + (gradient + momentum * u if nesterov else u)
                mask = np.ones_like(v, dtype=bool)
                if key == "w":
                    mask = np.abs(v) >= np.sort(np.abs(v).ravel())[-math.ceil(share * v.size)]
                sent[key] += np.where(mask, v, 0) / width
                residual[rank, key] = np.where(mask, 0, v)
                # Norms and biases are sent whole, and late nothing: their velocity stays.
                velocity[rank, key] = u if key == "b" else np.where(mask, 0, u)
        w, b = w - RATE * sent["w"], b - RATE * sent["b"]
        found.append(np.concatenate([w.ravel(), b]))
    return np.array(found)


@pytest.mark.parametrize("nesterov", [True, False])
def test_topk_is_deep_gradient_compression(answers, nesterov):
    expected = compressed(len(answers), nesterov)
    np.testing.assert_allclose(parameters(answers[0][f"topk {nesterov}"]), expected, atol=2e-5)


@pytest.mark.parametrize("nesterov", [True, False])
def test_a_share_of_everything_is_plain_sgd(answers, nesterov):
    whole, plain = (parameters(answers[0][f"{name} {nesterov}"]) for name in ("whole", "plain"))
    np.testing.assert_allclose(whole, plain, atol=1e-6)


@pytest.mark.parametrize("name", ["topk:0.02", "powersgd:2"])
def test_what_is_not_sent_is_not_lost(answers, name):
    """Without momentum: all gradients are the steps that were taken and what the ranks still hold, on average."""
    size = {"rows": 20, "columns": 30}
    taken = parameters(answers[0][f"late {name}"]["steps"])
    moved = (start(**size) - taken[-1]) / RATE
    total = sum(mean_gradient(step, len(answers), **size) for step in range(6))
    held = np.mean([rank_held(rank[f"late {name}"]["late"]) for rank in answers], axis=0)
    np.testing.assert_allclose(moved + held, total, atol=2e-4)
    assert np.abs(held).max() > 0.1


def rank_held(late):
    key = "residual" if "0.residual" in late else "error"
    return np.concatenate([late[f"0.{key}"], late[f"1.{key}"]])


def test_powersgd_sends_gradients_of_its_rank_as_they_are(answers):
    """A mean of rank one is what rank one can say: no step is late, whatever each rank alone could not say."""
    width = len(answers)
    right = slopes(0, 0, 20, 30)[0][:1]
    moved = np.diff(parameters(answers[0]["of rank one"]), axis=0)[:, :600]
    for step in range(1, 6):
        left = np.mean([slopes(step, rank, 20, 30)[0][:, :1] for rank in range(width)], axis=0)
        np.testing.assert_allclose(moved[step - 1], -RATE * (left * right).ravel(), atol=1e-5)


def test_local_sgd_meets_the_mean_where_it_averages(answers):
    """Of linear losses the mean of the walks is the walk by the mean: at the averages the ranks are where plain is."""
    plain = parameters(answers[0]["not local"])
    found = np.array([parameters(rank["local"]) for rank in answers])
    apart = [[step["apart"] for step in rank["local"]] for rank in answers]
    # Two steps of warm-up, and then averages after every third.
    assert apart == [[False, False, True, True, False, True, True, False, True, True]] * len(answers)
    for step, away in enumerate(apart[0]):
        np.testing.assert_allclose(found[:, step].mean(0), plain[step], atol=1e-5)
        assert np.allclose(found[:, step], plain[step], atol=1e-5) != away


def test_bytes_are_those_of_the_messages(answers):
    """Ring: an all-reduce of M bytes sends 2 (n - 1) / n M from each rank, an all-gather (n - 1) M."""
    n = len(answers)
    ring, gather, gradient = 2 * (n - 1) / n, n - 1, 4 * (SIZE + 5)

    def sent(name):
        return [step["sent"] for step in answers[0][name]]

    assert sent("plain") == pytest.approx([ring * gradient * step for step in (1, 2, 3, 4)])
    assert sent("fp16") == sent("bf16") == pytest.approx([ring * gradient / 2 * step for step in (1, 2, 3, 4)])
    # Five values with their indices of 48, and a bias of five.
    assert sent("topk True")[-1] == pytest.approx(6 * (gather * 5 * 8 + ring * 5 * 4))
    assert sent("whole True") == pytest.approx(sent("plain True"))
    # Two gradients, and the weights twice.
    assert sent("local")[-1] == pytest.approx(ring * gradient * 4)
    # Two plain steps, then factors of 20 + 30 numbers and a bias of five.
    assert sent("of rank one")[-1] == pytest.approx(ring * 4 * (2 * 605 + 4 * (50 + 5)))


def test_the_share_is_warmed_up_as_in_the_paper():
    """Section 3.3: 25 %, 6.25 %, 1.5625 %, 0.4 % and then 0.1 % of the gradient."""
    way = TopK(nn.Linear(3, 3), Recipe(warmup=0.4), 0.001)
    shares = []
    for step in range(100):
        way.begin(step, 100)
        shares.append(way.share)
    assert shares[::10][:6] == pytest.approx([0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001], rel=0.02)
    assert shares == sorted(shares, reverse=True)
    assert shares[40:] == [0.001] * 60


def test_one_rank_alone_is_plain():
    for name in ("fp16", "topk", "powersgd", "local_sgd"):
        way = communicate(nn.Linear(3, 3), Recipe(communication=name), 1)
        assert type(way) is Communication
        way.stepped()
        assert way.meter.facts == {}
