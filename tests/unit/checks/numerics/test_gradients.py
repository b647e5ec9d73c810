"""Gradients of a layer: against torch's own attention, in blocks, and what clipping does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attn_cli.checks.numerics import torch_blocks, torch_gradients
from attn_cli.checks.numerics.torch_gradients import gradients
from attn_cli.core.draws import normal
from attn_cli.positions.rope import Rope
from tests.unit.checks.numerics.planted import layer, qkv


def norms(counts: object, *names: str) -> list[float]:
    by_name = {count.name: count.norm64 for count in counts}  # type: ignore[attr-defined]
    return [by_name[name] for name in names]


@pytest.mark.parametrize("pairs", [1 << 20, 12])
def test_q_k_and_v_as_torch_has_them(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (torch_blocks, torch_gradients):
        monkeypatch.setattr(module, "PAIRS", pairs)
    inputs = qkv(kv_heads=1, dtype="float64")
    q, k, v = leaves = [
        torch.tensor(array).requires_grad_() for array in (inputs.q, inputs.k, inputs.v)
    ]
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    u = normal(3, 0, (5, 16)).reshape(1, 5, 2, 8).swapaxes(1, 2)
    made = torch.autograd.grad((out * torch.tensor(u)).sum(), leaves)
    found = gradients(inputs, "float64", seed=3)
    expected = [float(gradient.norm()) for gradient in made]
    np.testing.assert_allclose(norms(found.counts, "q", "k", "v"), expected, rtol=1e-10)
    assert found.first is None
    assert found.clipping is None


def test_every_projection_as_torch_has_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 8))
    names = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o")
    weights = {n: rng.standard_normal((8, 8) if n[0] == "w" else (8,)) / 3 for n in names}
    found = gradients(layer(x, weights), "float64", seed=1)
    leaf = {
        name: torch.tensor(array).requires_grad_() for name, array in (weights | {"x": x}).items()
    }
    q, k, v = (
        (leaf["x"] @ leaf[f"w_{n}"] + leaf[f"b_{n}"]).reshape(2, 5, 2, 4).transpose(1, 2)
        for n in "qkv"
    )
    merged = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    out = merged @ leaf["w_o"] + leaf["b_o"]
    u = np.stack([normal(1, batch, (5, 8)) for batch in range(2)])
    order = ("x", *names)
    made = torch.autograd.grad((out * torch.tensor(u)).sum(), [leaf[name] for name in order])
    expected = [float(gradient.norm()) for gradient in made]
    np.testing.assert_allclose(norms(found.counts, *order), expected, rtol=1e-9, atol=1e-12)


def test_a_rotation_leaves_the_norm_and_both_are_named() -> None:
    inputs = qkv(dtype="float64", queries=6)
    inputs = replace(inputs, rotation=Rope(base=10000.0, pairing="half"))
    found = gradients(inputs, "float64", seed=0)
    np.testing.assert_allclose(norms(found.counts, "q"), norms(found.counts, "q_rotated"))


def test_large_values_overflow_on_the_way_back_only() -> None:
    inputs = qkv()
    inputs.v[:] = inputs.v * 16_000
    found = gradients(inputs, "float16", seed=0)
    assert found.first is not None
    assert found.first.name == "q"
    by_name = {count.name: count for count in found.counts}
    assert (by_name["v"].nan, by_name["v"].inf) == (0, 0)
    assert np.isfinite(by_name["q"].norm64)


def test_one_nan_makes_every_clipped_gradient_nan() -> None:
    inputs = qkv()
    inputs.v[0, 1, 3, 2] = np.nan
    found = gradients(inputs, "float16", seed=0)
    clipping = found.clipping
    assert clipping is not None
    assert np.isnan(clipping.norm)
    assert 0 < clipping.bad_before < clipping.nan_after == clipping.total


def test_an_empty_row_has_gradient_zero() -> None:
    additive = np.zeros((5, 6))
    additive[2] = -np.inf
    found = gradients(qkv(additive=additive), "float16", seed=0)
    assert found.first is None


def test_what_vanishes_in_the_precision_is_counted() -> None:
    inputs = qkv(dtype="float64")
    inputs.k[:] = inputs.k * 1e-9  # the gradient of q has a factor of k
    count = next(one for one in gradients(inputs, "float16", seed=0).counts if one.name == "q")
    assert count.vanished == count.total


def test_sampled_rows_carry_the_cotangent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_blocks, "PAIRS_SEEN", 2 * 6 * 2)
    found = gradients(qkv(), "float16", seed=0)
    assert (found.rows_seen, found.rows_total) == (2, 5)


@pytest.mark.parametrize("name", ["k", "v"])
def test_a_hidden_nan_takes_no_part_in_the_gradient(name: str) -> None:
    additive = np.zeros((5, 6))
    additive[:, 3] = -np.inf
    inputs = qkv(additive=additive)
    getattr(inputs, name)[0, 1, 3, 2] = np.nan
    assert gradients(inputs, "float16", seed=0).first is None
