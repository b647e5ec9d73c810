"""A key that is taken away is one that the model's own mask hides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.models.hf.ablating import KeyAblation
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.forward import forward
from attn_cli.models.hf.inputs import inputs_of_ids
from tests.unit.models.hf.making import made
from tests.unit.models.hf.sharp import sharp

GONE = np.array([[False, False, True, False, False]])


@pytest.mark.parametrize("name", ["bert", "llama", "gpt_oss", "falcon"])
def test_output_is_that_of_a_mask(name: str, tmp_path: Path) -> None:
    loaded = sharp(tmp_path, name)
    inputs = inputs_of_ids(loaded, [[5, 9, 30, 12, 8]])
    without = capture(loaded, inputs, edit=KeyAblation(lambda facts: GONE)).outputs["logits"]
    hidden = inputs.with_tensors(attention_mask=torch.tensor(~GONE).long())
    plain, right = forward(loaded, inputs)["logits"], forward(loaded, hidden)["logits"]
    assert (right - plain).abs().max() > 1e-3
    torch.testing.assert_close(without, right, rtol=1e-4, atol=1e-5)


def test_one_layer_alone(tmp_path: Path) -> None:
    loaded = sharp(tmp_path, "bert")
    inputs = inputs_of_ids(loaded, [[5, 9, 30, 12, 8]])
    calls = capture(loaded, inputs, verify=False).coverage.calls
    edits = [KeyAblation(lambda facts: GONE, only=frozenset({c.place})) for c in calls[:2]]
    outputs = [capture(loaded, inputs, edit=edit).outputs["logits"] for edit in edits]
    none = KeyAblation(lambda facts: None)
    same = capture(loaded, inputs, edit=none).outputs["logits"]
    torch.testing.assert_close(same, forward(loaded, inputs)["logits"], rtol=1e-4, atol=1e-5)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-4
    assert all((output - same).abs().max() > 1e-4 for output in outputs)


def test_a_row_that_saw_nothing_else_is_empty(tmp_path: Path) -> None:
    """The first token of a causal model without its only key: no NaN."""
    loaded = made(tmp_path, "llama")
    inputs = inputs_of_ids(loaded, [[5, 9, 30]])
    first = np.array([[True, False, False]])
    logits = capture(loaded, inputs, edit=KeyAblation(lambda facts: first)).outputs["logits"]
    assert torch.isfinite(logits).all()
