"""What is found of this machine without torch, against what torch finds."""

import pytest
import torch

from detol.workers import devices


def test_whether_bfloat16_is_multiplied_in_hardware_is_what_torch_finds() -> None:
    found = torch.cpu.get_capabilities()
    if "amx_bf16" not in found:
        pytest.skip("torch says nothing of AMX on this processor")
    assert devices.multiplies_bfloat16() == found["amx_bf16"]
