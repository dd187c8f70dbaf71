"""Which backend gradients travel by, and which errors are those of a connection."""

import pytest
import torch.distributed as dist

from detol.workers.elastic import connection


@pytest.mark.parametrize(
    ("device", "own", "there", "found", "said"),
    [
        ("cpu", False, True, "gloo", ""),
        ("cuda", True, True, "nccl", ""),
        ("cuda", True, False, "gloo", "no NCCL"),
        ("cuda", False, True, "gloo", "share a GPU"),
    ],
)
def test_gloo_takes_the_place_of_nccl_with_one_line(monkeypatch, device, own, there, found, said):
    monkeypatch.setattr(dist, "is_nccl_available", lambda: there)
    name, warning = connection.backend(device, own_device=own)
    assert name == found
    assert (said in warning) if said else not warning
    assert "\n" not in warning


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (RuntimeError("[../gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"), True),
        (RuntimeError("NCCL communicator was aborted on rank 1."), True),
        (dist.DistNetworkError("failed to recv"), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
        (ValueError("gloo"), False),
    ],
)
def test_failures_of_collective_calls_are_told_from_others(error, is_one):
    assert connection.is_collective(error) is is_one
