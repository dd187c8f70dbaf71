"""Fixtures of several parts."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def local_ray() -> "Iterator[None]":
    """Keep one Ray for the whole run: each executor that starts meanwhile uses it and brings its own workers."""
    from detol.workers.local_ray import LocalRay

    held = LocalRay.acquire(2, None, 0)
    held.wait()
    yield
    held.release()
