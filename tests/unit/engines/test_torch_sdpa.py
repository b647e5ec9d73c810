"""Engines sdpa…: the kernel that is said is the one that ran, and one that cannot run refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError
from tests.agreement.samples import SAMPLES, drawn

FUSED = "aten::_scaled_dot_product_flash_attention_for_cpu"
PLAIN = "aten::_scaled_dot_product_attention_math"


def run(engine: str, inputs: AttentionInputs, dtype: str = "float32") -> Trace:
    return ENGINES[engine].run(inputs, Ask(keep=frozenset({"context"}), dtype=dtype))


def operations(engine: str, inputs: AttentionInputs) -> set[str]:
    """What PyTorch's profiler sees of a run."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds) as seen:
        run(engine, inputs)
    return {event.key for event in seen.key_averages()} & {FUSED, PLAIN}


@pytest.mark.parametrize(
    "sample, kernel", [("heads", "flash"), ("wide_values", "math"), ("grouped", "flash")]
)
def test_the_kernel_that_is_said_is_the_one_that_ran(sample: str, kernel: str) -> None:
    inputs = SAMPLES[sample]()
    (found,) = run("sdpa", inputs).findings
    assert found.code == "sdpa-kernel"
    assert found.message == f"scaled_dot_product_attention took its {kernel} kernel"
    assert operations("sdpa", inputs) == {FUSED if kernel == "flash" else PLAIN}


@pytest.mark.parametrize("engine, operation", [("sdpa:math", PLAIN), ("sdpa:flash", FUSED)])
def test_a_kernel_by_name_is_the_one_that_runs(engine: str, operation: str) -> None:
    assert operations(engine, drawn(1)) == {operation}
    assert run(engine, drawn(1)).findings == ()


def test_a_pytorch_that_does_not_tell_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_fused_sdp_choice")
    (found,) = run("sdpa", drawn(1)).findings
    assert "does not tell" in found.message


def test_what_pytorch_refuses_is_refused_with_its_reason() -> None:
    """Here beyond what is declared: straight into the kernel with d_v ≠ d_k."""
    with pytest.raises(UnsupportedError, match="engine sdpa:flash: PyTorch refuses") as refusal:
        run("sdpa:flash", SAMPLES["wide_values"]())
    assert "same last dimension" in refusal.value.message
    assert "\n" not in refusal.value.message
    assert "--engine" in refusal.value.hint


@pytest.mark.parametrize("engine", ["sdpa", "sdpa:math", "sdpa:flash"])
def test_masks_go_in_as_booleans_and_with_a_bias_as_numbers(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def watched(**call: Any) -> Any:
        seen.append(call)
        return real(**call)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    run(engine, drawn(1))
    run(engine, SAMPLES["additive_inf"]())
    plain, added = seen[0], seen[-1]
    assert plain["attn_mask"] is None
    assert added["attn_mask"].dtype == torch.float32
    assert torch.isneginf(added["attn_mask"]).any()
    assert all("is_causal" not in call for call in seen)
