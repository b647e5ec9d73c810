"""Engine torch: gradients, devices, masks that broadcast; the figures of a narrow precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attn_cli.core.rounding import precision, round_to
from attn_cli.engines.torch_eager import attention_stages, softmax
from tests.agreement.holding import lse_of, run
from tests.agreement.samples import drawn

INF, NAN = float("inf"), float("nan")


def leaves(seed: int, *, heads: int = 4, kv_heads: int = 2, queries: int = 3, keys: int = 4) -> Any:
    """q, k, v in float64 that want gradients."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((heads, queries, 5), (kv_heads, keys, 5), (kv_heads, keys, 2))
    return tuple(
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    )


CAUSAL = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
EMPTY_ROW = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
ADDITIVE = torch.tensor([[0, -INF, 0.5, 1], [-INF] * 4, [0, 0, 0, -INF]], dtype=torch.float64)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"visible": CAUSAL},
    "empty row": {"visible": EMPTY_ROW},
    "additive": {"additive": ADDITIVE, "visible": ~torch.isneginf(ADDITIVE)},
    "everything": {
        "visible": EMPTY_ROW,
        "bias": torch.full((4, 1, 4), 0.3, dtype=torch.float64),
        "softcap": 2.0,
        "scale": 0.7,
        "sinks": torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64),
    },
}


@pytest.mark.parametrize("option", OPTIONS)
def test_gradients_are_those_of_finite_differences(option: str) -> None:
    def context(*qkv: Tensor) -> Tensor:
        return attention_stages(*qkv, **OPTIONS[option])["context"]

    assert torch.autograd.gradcheck(context, leaves(0))


def test_gradients_reach_bias_and_sinks() -> None:
    q, k, v = leaves(1)
    sinks = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)

    def context(sinks: Tensor, bias: Tensor) -> Tensor:
        return attention_stages(q, k, v, visible=EMPTY_ROW, sinks=sinks, bias=bias)["context"]

    assert torch.autograd.gradcheck(context, (sinks, bias))


def gradients_of(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> dict[str, Tensor]:
    """Of Σ context², where every row that is finite counts."""
    context = attention_stages(q, k, v, visible=visible)["context"]
    got = torch.autograd.grad((context**2).sum(), (q, k, v))
    return dict(zip(("q", "k", "v"), got, strict=True))


@pytest.mark.parametrize("option", ["empty row", "additive", "everything"])
def test_an_empty_row_has_gradient_0_and_not_nan(option: str) -> None:
    q, k, v = leaves(2)
    total = attention_stages(q, k, v, **OPTIONS[option])["context"].sum()
    of_q, of_k, of_v = torch.autograd.grad(total, (q, k, v))
    for gradient in (of_q, of_k, of_v):
        assert torch.isfinite(gradient).all()
    assert (of_q[:, 1] == 0).all()
    assert (of_q[:, 0] != 0).any()


def test_hidden_positions_have_gradient_exactly_0() -> None:
    q, k, v = leaves(3)
    stages = attention_stages(q, k, v, visible=CAUSAL)
    total = (stages["context"] ** 2).sum()
    of_scores, of_masked, of_k, of_v = torch.autograd.grad(
        total, (stages["scores"], stages["masked"], k, v)
    )
    for gradient in (of_scores, of_masked):
        assert (gradient[:, ~CAUSAL] == 0).all()
    assert (of_k[:, 3] == 0).all()  # key 3 is seen by nobody
    assert (of_v[:, 3] == 0).all()
    assert (of_k[:, 0] != 0).all()


def test_nan_in_a_query_that_sees_nothing_reaches_no_gradient() -> None:
    q, k, v = leaves(5)
    broken = q.detach().clone()
    broken[:, 1, 0] = NAN  # EMPTY_ROW hides every key from query 1
    right = gradients_of(q, k, v, EMPTY_ROW)
    came = gradients_of(broken.requires_grad_(), k, v, EMPTY_ROW)
    for name in ("q", "k", "v"):
        np.testing.assert_allclose(came[name], right[name], rtol=1e-14, atol=1e-15)


def test_nan_in_a_query_reaches_the_keys_that_it_sees_and_no_others() -> None:
    q, k, v = leaves(6)
    broken = q.detach().clone()
    broken[:, 1, 0] = NAN  # under CAUSAL query 1 sees keys 0 and 1
    right = gradients_of(q, k, v, CAUSAL)
    came = gradients_of(broken.requires_grad_(), k, v, CAUSAL)
    assert torch.isnan(came["k"][:, :2]).any()
    np.testing.assert_allclose(came["k"][:, 2:], right["k"][:, 2:], rtol=1e-14, atol=1e-15)


def test_the_product_of_what_is_seen_has_the_gradients_of_differences() -> None:
    """Where a number is not finite a product of its own takes over: it must be as right."""
    q, k, v = leaves(7)
    broken = k.detach().clone()
    broken[:, 3, 1] = NAN  # seen by nobody

    def context(q: Tensor, others: Tensor) -> Tensor:
        keys = torch.cat([others, broken[:, 3:]], dim=1)
        return attention_stages(q, keys, v, visible=CAUSAL)["context"]

    others = broken[:, :3].clone().requires_grad_()
    assert torch.autograd.gradcheck(context, (q, others))
    assert torch.autograd.gradgradcheck(context, (q, others))


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (4, 3, 4), (1, 4), (3, 1), (2, 1, 1, 1)])
def test_masks_broadcast_also_where_a_value_is_not_finite(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(4)
    visible = torch.rand(shape, generator=generator) < 0.7
    q, k, v = (leaf.detach() for leaf in leaves(4))
    if len(shape) == 4:
        q, k, v = (leaf.expand(2, *leaf.shape) for leaf in (q, k, v))
    v = v.clone()
    v[..., 1, 0] = NAN
    whole = visible.expand(*q.shape[:-1], 4)
    came = attention_stages(q, k, v, visible=visible)
    right = attention_stages(q, k, v, visible=whole)
    for name in ("weights", "context"):
        torch.testing.assert_close(came[name], right[name], rtol=0, atol=0, equal_nan=True)


def test_softmax_of_nothing_visible_is_0() -> None:
    masked = torch.full((1, 2, 3), -INF, requires_grad=True)
    weights = softmax(masked, torch.zeros(1, 2, 3, dtype=torch.bool), None)
    assert (weights == 0).all()
    (gradient,) = torch.autograd.grad(weights.sum(), masked)
    assert (gradient == 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_lse_and_weights_speak_of_the_same_sinks(dtype: str) -> None:
    """Σ w = 1 − exp(sink − lse), with the sink as this precision holds it."""
    sinks = np.array([3.31, 12.13])
    trace = run("torch", drawn(5, sinks=sinks), dtype)
    held = round_to(sinks, dtype).astype(np.float64)[:, None]
    expected = 1 - np.exp(held - lse_of(trace))
    tolerance = 4 * precision(dtype).eps * expected + 1e-6 * (dtype != "float64")
    assert (np.abs(trace.stats["sum"] - expected) <= tolerance + 1e-15).all()


def test_a_far_offset_is_a_position_like_any_other() -> None:
    trace = run("torch", drawn(6, heads=1, queries=1, keys=1, q_offset=2**40))
    assert trace.stats["mean_distance"].item() == 2**40
