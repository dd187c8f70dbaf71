"""What is found of this machine without torch, against what torch finds."""

import pytest
import torch

from detol.workers import devices


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered, and nothing asked of oneDNN."""
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    devices.multiplies_bfloat16.cache_clear()


@pytest.mark.parametrize("most", ["AVX512_CORE_BF16", "avx2"])
def test_onednn_may_be_told_to_do_without(monkeypatch: pytest.MonkeyPatch, most: str) -> None:
    monkeypatch.setattr(devices.Path, "is_file", lambda _: True)
    monkeypatch.setattr(devices.Path, "read_text", lambda *_, **__: "flags : fma amx_bf16 amx_tile")
    assert devices.multiplies_bfloat16()
    devices.multiplies_bfloat16.cache_clear()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", most)
    assert not devices.multiplies_bfloat16()
    devices.multiplies_bfloat16.cache_clear()


def test_whether_bfloat16_is_multiplied_in_hardware_is_what_torch_finds() -> None:
    found = torch.cpu.get_capabilities()
    if "amx_bf16" not in found:
        pytest.skip("torch says nothing of AMX on this processor")
    assert devices.multiplies_bfloat16() == found["amx_bf16"]
