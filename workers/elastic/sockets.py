"""The TCP connections between the ranks of a group, found among all of this process, and cut.

gloo has no way to call a wait off: a rank that waits for a living peer, which itself has given up, would wait until its
patience is over. When the connections are shut down, every wait on them fails at once, here and at the other end.
Linux alone shows a process its sockets; elsewhere nothing is found.
"""

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
"""IP address and port."""
_OWN = Path("/proc/self/fd")
_ADDRESS_OF = 0x8915
"""Linux's SIOCGIFADDR (netdevice(7))."""


def listening() -> set[Address]:
    """Return where this process listens."""
    return {_address(place.getsockname()) for place in _sockets() if _listens(place)}


def cut(mine: set[Address], theirs: set[Address]) -> int:
    """Shut down what was accepted at ``mine`` or goes to ``theirs``; return how many connections that were."""
    count = 0
    for connection in _sockets():
        with contextlib.suppress(OSError):  # it is not connected, or closed by now
            if _listens(connection):
                continue
            if _address(connection.getsockname()) in mine or _address(connection.getpeername()) in theirs:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def interface(host: str) -> str:
    """Return the name of this machine's network interface towards a host (IPv4, Linux); empty where nothing tells."""
    import fcntl  # not on every system, where the rest of this file is loaded too

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # chooses the way; a datagram socket sends nothing by that
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                found = fcntl.ioctl(probe, _ADDRESS_OF, struct.pack("256s", name[:15].encode()))
                if socket.inet_ntoa(found[20:24]) == own:
                    return name
    return ""


def _sockets() -> Iterator[socket.socket]:
    """Yield a duplicate of each TCP socket of this process, closed behind the caller."""
    if not _OWN.is_dir():
        return
    for name in os.listdir(_OWN):  # noqa: PTH208  names are numbers here
        with contextlib.suppress(OSError):  # another thread has closed it meanwhile
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                    yield found


def _listens(place: socket.socket) -> bool:
    return bool(place.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _address(name: tuple[object, ...]) -> Address:
    # An IPv4 address in IPv6's clothes is the same place.
    return str(name[0]).removeprefix("::ffff:"), int(str(name[1]))
