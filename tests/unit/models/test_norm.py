"""norm: LayerNorm as PyTorch computes it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attn_cli.models.norm import layer_norm
from attn_cli.models.toy import Affine


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("affine", [False, True])
def test_it_is_layer_norm(dtype: type[np.floating], rtol: float, affine: bool) -> None:
    rng = np.random.default_rng(3)
    x = (5 + 3 * rng.normal(size=(1, 7, 16))).astype(dtype)
    weight, bias = rng.normal(size=(2, 16)).astype(dtype) if affine else (None, None)
    theirs = F.layer_norm(
        torch.tensor(x),
        (16,),
        None if weight is None else torch.tensor(weight),
        None if bias is None else torch.tensor(bias),
        eps=1e-3,
    )
    ours = layer_norm(x, Affine(weight, bias), eps=1e-3)
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=rtol, atol=rtol)


def test_a_constant_vector_becomes_the_bias() -> None:
    bias = np.arange(4.0)
    ours = layer_norm(np.full((1, 2, 4), 7.0), Affine(None, bias), eps=1e-5)
    np.testing.assert_array_equal(ours, np.broadcast_to(bias, (1, 2, 4)))
