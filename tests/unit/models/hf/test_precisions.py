"""Families in other precisions than float32: seen as they are, and said in which softmax runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.models.hf.call import AttentionCall
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import LoadOptions
from attn_cli.models.hf.stage_keeper import StageKeeper
from attn_cli.models.hf.trust import explained
from tests.unit.models.hf.making import drawn, eager_weights, folder_of

UPCASTS = ["llama", "gemma2", "gpt_neox", "bloom"]  # softmax in float32 whatever the model holds
PLAIN = ["gpt2", "bert", "falcon", "deberta-v2:relative"]
PRECISIONS = ("bfloat16", "float16", "float64")


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", UPCASTS + PLAIN)
def test_weights_are_those_of_the_family(name: str, dtype: str, tmp_path: Path) -> None:
    source = folder_of(tmp_path, name)
    asked = LoadOptions(source=source, random_weights=True, seed=1, dtype=dtype, backend="eager")
    loaded = load(asked)
    inputs, keeper = drawn(loaded), StageKeeper(("weights",), dtype="float64")
    result = capture(loaded, inputs, [keeper])
    assert result.check is not None
    assert result.check.verdict == "identical"
    said = "float32" if name in UPCASTS else dtype
    assert result.coverage.precision == f"softmax in {said}"
    (expected,) = eager_weights(loaded, inputs).values()
    eps = max(torch.finfo(getattr(torch, each)).eps for each in (dtype, said))
    seen = [keeper.kept[facts.place]["weights"] for facts in result.coverage.calls]
    for weights, right in zip(seen, expected, strict=True):
        np.testing.assert_allclose(weights, right, rtol=0, atol=max(eps, 1e-7))


def test_padding_before_a_text_in_float16(tmp_path: Path) -> None:
    """Its rows have every key filled with −65504, beside which the scores of float16 are lost."""
    source = folder_of(tmp_path, "gpt2")
    asked = LoadOptions(source=source, random_weights=True, seed=1, dtype="float16")
    loaded = load(replace(asked, backend="eager"))
    with torch.no_grad():
        for path, parameter in loaded.model.named_parameters():
            parameter.mul_(20 if path.endswith("c_attn.weight") else 1)
    inputs = inputs_of_ids(loaded, [[5, 6, 7, 8, 9, 3], [9, 10]], side="left")
    assert len(capture(loaded, inputs).coverage.calls) == 2


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_kernel_s_own_sums_are_said(dtype: str, tmp_path: Path) -> None:
    source = folder_of(tmp_path, "llama")
    loaded = load(LoadOptions(source=source, random_weights=True, dtype=dtype, backend="sdpa"))
    result = capture(loaded, drawn(loaded))
    assert result.coverage.precision.startswith("softmax inside PyTorch's kernel")


def test_a_softmax_in_float32_is_no_licence(tmp_path: Path) -> None:
    """A context that float32 does not explain is found in float64 all the same."""

    class Keep:
        call: AttentionCall

        def see(self, call: AttentionCall) -> None:
            self.call = replace(call, context=None if call.context is None else call.context + 0)

    source = folder_of(tmp_path, "llama")
    asked = LoadOptions(source=source, random_weights=True, dtype="float64", backend="eager")
    loaded, keep = load(asked), Keep()
    capture(loaded, drawn(loaded), [keep])
    assert explained(keep.call)
    assert keep.call.context is not None
    assert not explained(replace(keep.call, context=keep.call.context * 1.01))
