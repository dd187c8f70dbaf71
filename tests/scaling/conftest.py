"""Machines with round numbers."""

import pytest

from detol.scaling.link import Link
from detol.scaling.machine import Machine
from detol.scaling.rates import KINDS, Rate


def machine_of(**changes):
    """A machine of 1e9 multiply-adds a second, 1 GB/s between ranks, and nothing else that takes time."""
    settings = {"rates": dict.fromkeys(KINDS, Rate(1e9)), "link": Link(1e9), "overlap": 0.0, **changes}
    return Machine("round", "cpu", **settings)


@pytest.fixture
def round_machine():
    return machine_of()
