"""Which backend gradients travel by, and which errors are those of a connection."""

import os
import socket
import sys

import pytest
import torch.distributed as dist

from detol.errors import WorkerLost
from detol.workers.elastic import connection
from detol.workers.elastic.plan import Rendezvous


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


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are told apart on Linux alone")
@pytest.mark.parametrize(("given", "then"), [("", ["lo", "eth1", None, "lo"]), ("mine", ["mine"] * 4)])
def test_gloo_takes_the_interface_of_each_meeting_unless_the_user_names_one(monkeypatch, given, then):
    """A worker serves trials on one node and on several in turn: what was right for one is not for the next."""
    monkeypatch.setenv(connection.INTERFACE, given)
    monkeypatch.setattr(connection, "_chosen", "")
    monkeypatch.setattr(connection, "interface", {"here": "lo", "there": "eth1", "nowhere": ""}.__getitem__)
    found = []
    for host in ("here", "there", "nowhere", "here"):
        connection.choose_interface(host)
        found.append(os.environ.get(connection.INTERFACE))
    assert found == then


@pytest.mark.parametrize(
    ("patience", "superseded", "why"), [(60.0, True, "another group"), (0.0, False, "nobody answered")]
)
def test_a_store_that_nobody_serves_any_more_is_not_waited_for_when_there_is_another(
    monkeypatch, patience, superseded, why
):
    monkeypatch.setattr(connection, "SLICE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(WorkerLost, match=why):
        connection.meet(Rendezvous("127.0.0.1", port), patience, lambda: superseded)
