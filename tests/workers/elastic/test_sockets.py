"""Connections of this process, cut by where they go, while others stay."""

import socket
import sys

import pytest

from detol.workers.elastic.sockets import cut, interface, listening


def pair():
    """Return a listening socket and the two ends of a connection to it."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    return server, client, accepted


def test_only_connections_of_these_addresses_are_cut():
    before = listening()
    one, other = pair(), pair()
    assert listening() - before == {one[0].getsockname(), other[0].getsockname()}
    assert cut({one[0].getsockname()}, set()) == 1
    assert one[1].recv(1) == b""  # its end
    other[1].sendall(b"x")
    assert other[2].recv(1) == b"x"
    assert cut(set(), {other[0].getsockname()}) == 1
    assert other[2].recv(1) == b""
    for each in (*one, *other):
        each.close()
    assert listening() == before


def test_sockets_that_go_nowhere_do_no_harm():
    unconnected = socket.socket()
    assert cut({("127.0.0.1", 1)}, {("127.0.0.1", 1)}) == 0
    unconnected.close()


@pytest.mark.skipif(sys.platform != "linux", reason="interfaces are told apart on Linux alone")
def test_the_interface_towards_this_machine_is_loopback_and_towards_nowhere_none():
    assert interface("127.0.0.1") == "lo"
    assert interface("no-such-host.invalid") == ""
