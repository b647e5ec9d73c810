"""Whole layers against PyTorch's own modules, which hold their matrices by their own names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import attn_cli
from attn_cli.core.trace import Trace
from tests.agreement.holding import STEPWISE

Array = NDArray[Any]


def seeded(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def module(seed: int, d_model: int, heads: int, **more: Any) -> torch.nn.MultiheadAttention:
    """nn.MultiheadAttention with numbers in every parameter, its biases included."""
    made = torch.nn.MultiheadAttention(
        d_model, heads, batch_first=True, dtype=torch.float64, **more
    )
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(seeded(100 * seed + i, *parameter.shape))
    return made


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_a_state_dict_of_multihead_attention(engine: str, causal: bool, bias: bool) -> None:
    made, x = module(1, 12, 3, bias=bias), seeded(2, 2, 5, 12)
    hidden = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1) if causal else None
    right, weights = made(x, x, x, attn_mask=hidden, average_attn_weights=False)
    trace = attn_cli.run(
        x, weights=made.state_dict(), heads=3, mask="causal" if causal else (), engine=engine
    )
    np.testing.assert_allclose(trace["weights"], weights.detach(), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(trace["output"], right.detach(), rtol=1e-10, atol=1e-12)


def test_cross_attention_of_other_widths() -> None:
    made = module(3, 8, 2, kdim=6, vdim=6)
    x, context = seeded(4, 2, 3, 8), seeded(5, 2, 7, 6)
    right, weights = made(x, context, context, average_attn_weights=False)
    trace = attn_cli.run({"x": x, "context": context}, weights=made.state_dict(), heads=2)
    np.testing.assert_allclose(trace["weights"], weights.detach(), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(trace["output"], right.detach(), rtol=1e-10, atol=1e-12)


def test_a_conv1d_layer_keeps_its_matrices_the_other_way_round() -> None:
    """GPT-2's Conv1D computes x · W + b with W (in, out): nn.Linear's matrices turned round."""
    made, x = module(6, 8, 2), seeded(7, 1, 4, 8)
    state = {name: array.numpy() for name, array in made.state_dict().items()}
    conv1d = {
        "h.3.attn.c_attn.weight": state["in_proj_weight"].T,
        "h.3.attn.c_attn.bias": state["in_proj_bias"],
        "h.3.attn.c_proj.weight": state["out_proj.weight"].T,
        "h.3.attn.c_proj.bias": state["out_proj.bias"],
    }
    trace = attn_cli.run(x, weights=conv1d, heads=2)
    np.testing.assert_allclose(trace["output"], made(x, x, x)[0].detach(), rtol=1e-10, atol=1e-12)


class GroupedLayer(torch.nn.Module):
    """Grouped queries with rotary positions, as Llama's modules are called and put together."""

    def __init__(self) -> None:
        super().__init__()
        for name, out in (("q", 24), ("k", 12), ("v", 12)):
            setattr(self, f"{name}_proj", torch.nn.Linear(10, out, bias=False))
        self.o_proj = torch.nn.Linear(24, 10, bias=False)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        q, k, v = (
            getattr(self, f"{name}_proj")(x).view(1, length, -1, 6).transpose(1, 2)
            for name in "qkv"
        )
        frequency = 1.0 / (10_000.0 ** (torch.arange(0, 6, 2, dtype=torch.float64) / 6))
        angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
        cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
        q, k = (t * cos + torch.cat([-t[..., 3:], t[..., :3]], dim=-1) * sin for t in (q, k))
        context = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        out: torch.Tensor = self.o_proj(context.transpose(1, 2).reshape(1, length, 24))
        return out


def test_a_layer_like_llamas() -> None:
    torch.manual_seed(8)
    made, x = GroupedLayer(), seeded(9, 1, 7, 10)
    trace = attn_cli.run(x, weights=made.state_dict(), heads=4, mask="causal", positions="rope")
    np.testing.assert_allclose(trace["output"], made(x).detach(), rtol=1e-10, atol=1e-12)
    assert trace["k"].shape == (1, 2, 7, 6)


def t3() -> Trace:
    """Batch 2, four tokens, d_model 8, one head of d_k = d_v = 4, seeded projections."""
    x = seeded(10, 2, 4, 8)
    return attn_cli.run(x, init="xavier", seed=0, d_k=4, d_v=4)


def test_the_shapes_of_the_textbooks_trace() -> None:
    shapes = {step.stage: step.shape for step in t3().shapes}
    assert shapes == {
        "x": (2, 4, 8),
        "q": (2, 1, 4, 4),
        "k": (2, 1, 4, 4),
        "v": (2, 1, 4, 4),
        "scores": (2, 1, 4, 4),
        "scaled": (2, 1, 4, 4),
        "weights": (2, 1, 4, 4),
        "context": (2, 1, 4, 4),
        "merged": (2, 4, 4),
        "output": (2, 4, 8),
    }
    assert list(shapes) == [
        "x", "q", "k", "v", "scores", "scaled", "weights", "context", "merged", "output",
    ]  # fmt: skip


def test_every_step_has_its_formula_and_named_axes() -> None:
    steps = {step.stage: (step.formula, step.axes) for step in t3().shapes}
    assert steps["q"] == ("x · W_q", ("batch", "head", "query", "d_k"))
    assert steps["v"] == ("x · W_v", ("batch", "head", "key", "d_v"))
    assert steps["merged"] == ("heads side by side", ("batch", "query", "head*d_v"))
    assert steps["output"] == ("merged · W_o", ("batch", "query", "d_model"))
