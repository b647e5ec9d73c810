"""What every test stands on: the samples, a clean environment, and properties that repeat."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run and on every machine, and nothing written beside the sources.
settings.register_profile("repeatable", database=None, deadline=None, derandomize=True)
settings.load_profile("repeatable")

# Small tensors on several threads wait for each other; torch reads it when it is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder sample_inputs/."""
    return ROOT / "sample_inputs"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the caller's shell changes what a test prints."""
    for name in ("ATTN_DEBUG", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def untraced_flex(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention by PyTorch's switch for stepping through it: without TorchDynamo, which traces
    every call anew and takes thirty times as long as a small attention. For wide sweeps;
    tests/agreement/test_fused.py holds that the numbers are the same, bit for bit.
    """
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)
