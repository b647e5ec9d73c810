"""Which part of which tensor is which projection: written and read back, for every kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from attn_cli.diagnosis.drawing import draw_matrices, exact
from attn_cli.diagnosis.plan import WeightsSpec
from attn_cli.diagnosis.weights import Tensor, layout_of
from attn_cli.errors import InputError


def tensors(*named: tuple[str, tuple[int, ...], str]) -> dict[str, Tensor]:
    return {name: Tensor(name, shape, family=family) for name, shape, family in named}


LINEAR = tensors(
    ("q.weight", (8, 6), "linear"),
    ("q.bias", (8,), "linear"),
    ("k.weight", (4, 6), "linear"),
    ("v.weight", (4, 6), "linear"),
    ("o.weight", (6, 8), "linear"),
)


def test_linear_layers_are_turned_round() -> None:
    spec = WeightsSpec("separate", {"q": "q", "k": "k", "v": "v", "o": "o"})
    layout = layout_of(spec, LINEAR, heads=4, kv_heads=2)
    assert layout.roles() == {
        "w_q": (6, 8),
        "b_q": (8,),
        "w_k": (6, 4),
        "w_v": (6, 4),
        "w_o": (8, 6),
    }
    drawn = draw_matrices(layout.roles(), 0)
    raw = layout.write(drawn)
    x = exact(np.random.default_rng(0).normal(size=(3, 6)))
    theirs = nn.functional.linear(
        torch.tensor(x), torch.tensor(raw["q.weight"]), torch.tensor(raw["q.bias"])
    )
    np.testing.assert_allclose(theirs.numpy(), x @ drawn["w_q"] + drawn["b_q"], atol=1e-14)


@pytest.mark.parametrize(
    "spec, held",
    [
        (WeightsSpec("fused", {"qkv": "qkv"}), [("qkv.weight", (16, 6)), ("qkv.bias", (16,))]),
        (WeightsSpec("fused_conv1d", {"qkv": "c"}), [("c.weight", (6, 16)), ("c.bias", (16,))]),
        (WeightsSpec("in_proj", {"w": "w", "b": "b"}), [("w", (16, 6)), ("b", (16,))]),
    ],
)
def test_fused_matrices_are_cut_by_heads(
    spec: WeightsSpec, held: list[tuple[str, tuple[int, ...]]]
) -> None:
    family = "linear" if spec.type == "fused" else ""
    layout = layout_of(
        spec, tensors(*((name, shape, family) for name, shape in held)), heads=4, kv_heads=2
    )
    assert layout.roles()["w_q"] == (6, 8)
    assert layout.roles()["w_k"] == layout.roles()["w_v"] == (6, 4)
    drawn = draw_matrices(layout.roles(), 1)
    raw = layout.write(drawn)
    stored = raw[held[0][0]] if spec.type == "fused_conv1d" else raw[held[0][0]].T
    together = np.concatenate([drawn["w_q"], drawn["w_k"], drawn["w_v"]], axis=1)
    np.testing.assert_array_equal(stored, together)
    np.testing.assert_array_equal(
        raw[held[1][0]], np.concatenate([drawn["b_q"], drawn["b_k"], drawn["b_v"]])
    )


def test_heads_of_their_own_lie_side_by_side() -> None:
    held = tensors(
        *((f"h.{i}.{name}.weight", (4, 6), "linear") for i in range(3) for name in ("a", "b", "c"))
    )
    spec = WeightsSpec("head_modules", {"list": "h", "q": "a", "k": "b", "v": "c"})
    layout = layout_of(spec, held, heads=3, kv_heads=3)
    drawn = draw_matrices(layout.roles(), 2)
    np.testing.assert_array_equal(layout.write(drawn)["h.1.a.weight"], drawn["w_q"][:, 4:8].T)


def test_tensors_a_head_are_laid_side_by_side() -> None:
    held = tensors(
        *((name, (3, 6, 4), "") for name in ("Q", "K", "V")),
        ("O", (3, 4, 6), ""),
        ("bq", (3, 4), ""),
    )
    names = {"q": "Q", "k": "K", "v": "V", "o": "O", "bq": "bq"}
    layout = layout_of(WeightsSpec("head_tensors", names), held, heads=3, kv_heads=3)
    drawn = draw_matrices(layout.roles(), 3)
    raw = layout.write(drawn)
    np.testing.assert_array_equal(raw["Q"][2], drawn["w_q"][:, 8:])
    np.testing.assert_array_equal(raw["O"][1], drawn["w_o"][4:8])
    np.testing.assert_array_equal(raw["bq"].ravel(), drawn["b_q"])


def test_a_shared_matrix_is_read_back_as_what_it_holds() -> None:
    spec = WeightsSpec("separate", {"q": "q", "k": "q", "v": "q"})
    layout = layout_of(spec, LINEAR, heads=4, kv_heads=4)
    read = layout.read(layout.write(draw_matrices(layout.roles(), 4)))
    np.testing.assert_array_equal(read.w_q, read.w_k)
    np.testing.assert_array_equal(read.w_q, read.w_v)


def test_drawn_numbers_are_exact_in_every_precision() -> None:
    drawn = draw_matrices({"w_q": (64, 64), "b_q": (64,)}, 5)
    for array in drawn.values():
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            there = torch.tensor(array).to(dtype).double().numpy()
            np.testing.assert_array_equal(there, array)
    assert drawn["w_q"].std() == pytest.approx(1.3 / 8, rel=0.05)
    assert drawn["b_q"].std() == pytest.approx(0.3, rel=0.2)


@pytest.mark.parametrize(
    "spec, words",
    [
        (WeightsSpec("fused", {"qkv": "nothing"}), "the code has no matrix nothing"),
        (WeightsSpec("fused", {"qkv": "o"}), "o has 6 outputs, which 8 heads"),
        (WeightsSpec("separate", {"q": "q.bias", "k": "k", "v": "v"}), "q.bias has shape (8,)"),
    ],
)
def test_names_that_do_not_fit_are_refused(spec: WeightsSpec, words: str) -> None:
    with pytest.raises(InputError) as caught:
        layout_of(spec, LINEAR, heads=4, kv_heads=2)
    assert caught.value.message.startswith(words)
