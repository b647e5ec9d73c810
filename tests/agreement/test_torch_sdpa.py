"""Every engine's output against PyTorch's own scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attn_cli.core.inputs import AttentionInputs
from tests.agreement.holding import STEPWISE, run
from tests.agreement.samples import MASK_SAMPLES, SAMPLES, masked_sample

# What PyTorch's function knows nothing of.
BEYOND = {"softcap", "sinks", "everything", "bias"}
TEXTS = [texts[0] for texts in MASK_SAMPLES.values()] + ["causal & padding(4, 0)"]


def sdpa(inputs: AttentionInputs, **more: Any) -> Any:
    q, k, v = (torch.tensor(np.ascontiguousarray(a)) for a in (inputs.q, inputs.k, inputs.v))
    return scaled_dot_product_attention(
        q, k, v, scale=inputs.scale, enable_gqa=q.shape[1] != k.shape[1], **more
    ).numpy()


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("sample", [name for name in SAMPLES if name not in BEYOND])
def test_the_context_is_what_sdpa_returns(engine: str, sample: str) -> None:
    inputs = SAMPLES[sample]()
    added = inputs.additive
    mask = None if added is None else torch.tensor(np.broadcast_to(added, inputs.shape))
    expected = sdpa(inputs, attn_mask=mask)
    # Scores of 3,000 have an ulp of 5e-13: two right float64 computations part there.
    np.testing.assert_allclose(run(engine, inputs)["context"], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("text", TEXTS)
def test_boolean_masks_mean_what_sdpa_means(engine: str, text: str) -> None:
    """True = may attend; rows that see nothing are 0 on both sides."""
    inputs = masked_sample(text, 9, 0)
    expected = sdpa(inputs, attn_mask=torch.tensor(inputs.keep()))
    np.testing.assert_allclose(run(engine, inputs)["context"], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("queries", [5, 7, 9])
def test_is_causal_is_causal_aligned_upper_left(engine: str, queries: int) -> None:
    inputs = masked_sample("causal", queries, 0)
    expected = sdpa(inputs, is_causal=True)
    np.testing.assert_allclose(run(engine, inputs)["context"], expected, rtol=1e-12, atol=1e-14)


def test_lower_right_lets_the_last_query_see_every_key() -> None:
    inputs = masked_sample("causal", 4, 3)
    expected = sdpa(inputs, attn_mask=torch.tensor(np.tri(4, 7, 3, dtype=bool)))
    np.testing.assert_array_equal(inputs.keep()[0, 0], np.tri(4, 7, 3, dtype=bool))
    np.testing.assert_allclose(run("numpy", inputs)["context"], expected, rtol=1e-12, atol=1e-14)
