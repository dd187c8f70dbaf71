"""The Ray of this process, shared by all executors in it. Used by :mod:`detol.workers.pool`."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import ray

from detol.workers import devices
from detol.workers.reaper import reaper, short_directory

STORE = 200 * 2**20
"""Bytes of shared memory beside twice the data."""


class LocalRay:
    """The Ray of this process, shared by all executors in it: the first starts it, the last stops it.

    Ray's daemons die with the *thread* that started them, so that thread lives as long as they shall.
    A Ray that runs already when the first executor comes is used, and left running.
    """

    _current: "LocalRay | None" = None
    _guard = threading.Lock()

    def __init__(self, workers: int, address: str | None, size: int) -> None:
        self._users = 0
        self.home: Path | None = None
        self._ready, self._done = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._live, args=(workers, address, size), name="detol-ray", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls, workers: int, address: str | None, size: int) -> "LocalRay":
        """Return the Ray of this process, starting it where there is none; does not wait for it."""
        with cls._guard:
            if cls._current is None:
                cls._current = cls(workers, address, size)
            cls._current._users += 1
            return cls._current

    def wait(self) -> None:
        """Wait until it runs; raise why it does not."""
        self._ready.wait()
        if self._error:
            raise self._error

    def release(self) -> None:
        """Say that one user needs it no more; after the last one, stop it and wait until it is gone."""
        with self._guard:
            self._users -= 1
            if self._users:
                return
            type(self)._current = None
        self._done.set()
        self._thread.join(timeout=30)

    def _live(self, workers: int, address: str | None, size: int) -> None:
        if ray.is_initialized():
            self._ready.set()
            return
        self.home = None if address else short_directory()
        _hush()
        with reaper(self.home) as watch:
            try:
                _start_ray(workers, address, size, self.home)
                watch()
            except BaseException as error:  # handed to whoever waits
                self._error = error
            self._ready.set()
            self._done.wait()
            with contextlib.suppress(Exception):
                ray.shutdown()


def _hush() -> None:
    """Keep Ray's notes on dead workers off standard output, where results go: each becomes a trial's reason."""
    with contextlib.suppress(AttributeError):
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


def _start_ray(workers: int, address: str | None, size: int, home: Path | None) -> None:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if address:
        common.pop("include_dashboard")
        ray.init(address=address, **common)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if not os.access(Path.home(), os.W_OK):
        # Ray keeps the token of local clusters in ~/.ray and does not start when it cannot.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    ray.init(
        address="local",
        # Of this process, not of the machine: Ray starts a process for each before any is asked for.
        num_cpus=max(workers, devices.cpus()),
        object_store_memory=2 * size + STORE,
        _temp_dir=str(home),
        **common,
    )
