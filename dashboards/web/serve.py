"""Serving the dashboard: the socket first, so that what is wrong with it is one line."""

import errno
import ipaddress
import socket

import uvicorn
from fastapi import FastAPI

from detol.errors import UsageError


def loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0: one that is free.

    Raises:
        UsageError: the port is in use or forbidden, or the host is not one of this machine.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be in 0 to 65535 (0: one that is free), got {port}")
    try:
        if not host:
            raise OSError(errno.EADDRNOTAVAIL, "no host")
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        raise UsageError(f"--host must be a name or address of this machine, got {host!r}") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(128)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is in use: take another --port, or 0 for one that is free") from None
        if error.errno == errno.EACCES:
            raise UsageError(f"port {port} is not allowed here: take one from 1024 on") from None
        raise UsageError(f"--host must be a name or address of this machine, got {host!r}") from None
    return made


def address(made: socket.socket, host: str) -> str:
    """Return the URL of what listens on a socket."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{made.getsockname()[1]}/"


def server(app: FastAPI) -> uvicorn.Server:
    """Return the server of an application; ``run(sockets=[...])`` serves until a signal, or ``should_exit``."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)
