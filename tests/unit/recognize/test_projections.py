"""projections: the matrices of a layer by every program's names, brought to (in, out)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from tests.unit.recognize.dumps import codes, dump_of, normal, read, said
from tests.unit.recognize.layers import EQUAL, FUSED, STYLES, B, W, X, projections, with_weights

# What a style does not show: k and v in one matrix may be of any widths.
TOLD = {"fused kv": {"kv_heads": 2}}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("apart", [True, False], ids=["in a file of its own", "beside x"])
def test_every_style_gives_the_same_matrices(style: str, apart: bool) -> None:
    arrays, told = STYLES[style](), {"heads": 2, **TOLD.get(style, {})}
    reading = with_weights(arrays, **told) if apart else read(dump_of(x=X, **arrays), **told)
    found = projections(reading)
    for part in "qkvo":
        np.testing.assert_array_equal(getattr(found, f"w_{part}"), W[part], err_msg=part)
        bias = getattr(found, f"b_{part}")
        if bias is not None:
            np.testing.assert_array_equal(bias, B[part], err_msg=part)
    biased = [part for part in "qkvo" if getattr(found, f"b_{part}") is not None]
    expected = sum("bias" in name or ".b_" in name for name in arrays)
    assert len(biased) == (4 if "in_proj_bias" in arrays else expected)
    np.testing.assert_allclose(reading.inputs.q[0, 1], _head(found, "q", 1, 3), rtol=1e-13)
    np.testing.assert_allclose(reading.inputs.v[0, 0], _head(found, "v", 0, 5), rtol=1e-13)


def _head(found: Any, part: str, head: int, width: int) -> Any:
    """One head of q, k or v by hand."""
    bias = getattr(found, f"b_{part}")
    full = X @ W[part] + (0 if bias is None else B[part])
    return full[:, head * width : (head + 1) * width]


@pytest.mark.parametrize("style", FUSED)
def test_a_fused_matrix_is_q_then_k_then_v(style: str) -> None:
    reading = with_weights(FUSED[style](), heads=2)
    found = projections(reading)
    for part in "qkvo":
        np.testing.assert_array_equal(getattr(found, f"w_{part}"), EQUAL[part], err_msg=part)
    assert said(reading, "fused-weights").endswith("q 8 | k 8 | v 8 features, in this order")


@pytest.mark.parametrize(
    "choices",
    [
        {"heads": 4, "kv_heads": 2},
        {"heads": 4, "d_k": 3},
        {"kv_heads": 2, "heads": 4, "d_k": 3, "d_v": 3},
    ],
)
def test_a_fused_matrix_of_grouped_heads_is_split_as_told(choices: dict[str, int]) -> None:
    parts = {"q": normal(8, 12, seed=1), "k": normal(8, 6, seed=2), "v": normal(8, 6, seed=3)}
    matrix = np.concatenate(list(parts.values()), axis=1)
    reading = with_weights({"qkv.weight": matrix.T}, **choices)
    found = projections(reading)
    for part, right in parts.items():
        np.testing.assert_array_equal(getattr(found, f"w_{part}"), right)
    assert reading.inputs.q.shape == (1, 4, 4, 3)
    assert reading.inputs.k.shape == (1, 2, 4, 3)
    assert "q 12 | k 6 | v 6" in said(reading, "fused-weights")
    assert said(reading, "grouped-heads") == "query head h reads key/value head h // 2"


def test_a_fused_matrix_with_wider_values() -> None:
    matrix = normal(8, 2 * (3 + 3 + 5))
    found = with_weights({"qkv.weight": matrix.T}, heads=2, kv_heads=2, d_v=5)
    assert (found.inputs.q.shape[-1], found.inputs.v.shape[-1]) == (3, 5)
    np.testing.assert_array_equal(projections(found).w_v, matrix[:, 12:])


@pytest.mark.parametrize(
    "choices, widths",
    [
        ({}, (6, 6, 6)),  # one head: as wide as q
        ({"heads": 2}, (6, 6, 6)),
        ({"heads": 2, "kv_heads": 1}, (6, 3, 9)),
        ({"heads": 2, "d_v": 1}, None),
        ({"heads": 2, "kv_heads": 3}, None),
        ({"heads": 2, "kv_heads": 6}, None),
    ],
)
def test_a_matrix_for_k_and_v(choices: dict[str, int], widths: tuple[int, int, int] | None) -> None:
    """k first; v gets what is left of each key/value head."""
    weights = {"w_q": normal(8, 6), "w_kv": normal(8, 12)}
    if widths is None:
        with pytest.raises(InputError, match=r"layer\.npz: "):
            with_weights(weights, **choices)
        return
    found = projections(with_weights(weights, **choices))
    assert (found.w_q.shape[1], found.w_k.shape[1], found.w_v.shape[1]) == widths
    np.testing.assert_array_equal(found.w_v, weights["w_kv"][:, widths[1] :])


def test_a_fused_bias_is_split_like_its_matrix() -> None:
    bias = normal(24, seed=30)
    found = projections(with_weights({**FUSED["gpt2"](), "h.0.attn.c_attn.bias": bias}, heads=2))
    for part, right in zip("qkv", np.split(bias, 3), strict=True):
        np.testing.assert_array_equal(getattr(found, f"b_{part}"), right)
    assert found.b_o is None


def test_grouped_heads_are_seen_in_the_widths() -> None:
    weights = {"w_q": normal(8, 12), "w_k": normal(8, 4), "w_v": normal(8, 10)}
    reading = with_weights(weights, heads=6)
    assert reading.inputs.q.shape == (1, 6, 4, 2)
    assert reading.inputs.k.shape == (1, 2, 4, 2)
    assert reading.inputs.v.shape == (1, 2, 4, 5)
    assert (reading.settings.heads, reading.settings.kv_heads) == (6, 2)
    by_kv = with_weights(weights, kv_heads=2)
    assert by_kv.settings.heads == 6
    by_width = with_weights(weights, d_k=2)
    assert (by_width.settings.heads, by_width.settings.kv_heads) == (6, 2)


def test_what_was_read_is_said() -> None:
    reading = with_weights(STYLES["opt"](), heads=2)
    assert codes(reading) == ["projections", "weights-layout"]
    assert said(reading, "projections") == (
        "read self_attn.q_proj.weight as W_q; self_attn.k_proj.weight as W_k; "
        "self_attn.v_proj.weight as W_v; self_attn.out_proj.weight as W_o; biases "
        "self_attn.q_proj.bias, self_attn.k_proj.bias, self_attn.v_proj.bias, "
        "self_attn.out_proj.bias"
    )
    assert said(reading, "weights-layout") == (
        "the matrices are (out, in), as PyTorch's nn.Linear keeps them: their shapes say so"
    )
    settings = reading.settings
    assert (settings.weights, settings.weights_layout) == ("layer.npz", "out-in")
    plain = said(with_weights(STYLES["W_q"](), heads=2), "projections")
    assert plain == "read W_q; W_k; W_v; W_o; no biases"


def test_without_w_o_the_output_is_merged() -> None:
    weights = {name: array for name, array in STYLES["w_q"]().items() if name != "w_o"}
    reading = with_weights(weights, heads=2)
    assert "merged" in said(reading, "no-output-projection")
    assert reading.inputs.output_projection is None


def test_w_o_may_lead_elsewhere_and_that_is_said() -> None:
    reading = with_weights({**STYLES["w_q"](), "w_o": normal(10, 12)}, heads=2)
    assert said(reading, "output-width") == "W_o leads to 12 features, not back to d_model 8"


def test_k_and_v_come_from_the_context_by_its_own_width() -> None:
    weights = {
        "q_proj.weight": normal(6, 8),
        "k_proj.weight": normal(6, 5),
        "v_proj.weight": normal(6, 5),
    }
    layer, context = dump_of(**weights, source="layer.npz"), normal(7, 5)
    dump = dump_of(x=X, context=context)
    reading = understand(dump, Choices(heads=2), weights=layer)
    assert reading.inputs.shape == (1, 2, 4, 7)
    right = context @ weights["k_proj.weight"].T
    np.testing.assert_allclose(reading.inputs.k[0, 0], right[:, :3], rtol=1e-13)


# Which of its axes is which: seen in the shapes, or asked for.


def test_square_matrices_need_to_be_told() -> None:
    square = {f"w_{part}": EQUAL[part] for part in "qkvo"}
    with pytest.raises(InputError, match=r"layer\.npz: w_q has shape \(8, 8\)") as caught:
        with_weights(square)
    assert "--weights-layout out-in" in caught.value.hint
    straight = projections(with_weights(square, weights_layout="in-out"))
    turned = with_weights(square, weights_layout="out-in")
    for part in "qkvo":
        np.testing.assert_array_equal(getattr(straight, f"w_{part}"), EQUAL[part])
        np.testing.assert_array_equal(getattr(projections(turned), f"w_{part}"), EQUAL[part].T)
    assert said(turned, "weights-layout").endswith("--weights-layout says so")


@pytest.mark.parametrize("telling", ["k", "v", "o"])
def test_one_matrix_that_is_not_square_tells_for_all(telling: str) -> None:
    """In one file all matrices lie the same way."""
    shapes = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8)}
    shapes |= {
        "k": {"k": (8, 4), "v": (8, 4)},
        "v": {"v": (8, 12), "o": (12, 8)},
        "o": {"o": (8, 6)},
    }[telling]
    weights = {f"{part}_proj.weight": normal(*shape).T for part, shape in shapes.items()}
    reading = with_weights(weights, heads=2)
    assert reading.settings.weights_layout == "out-in"
    np.testing.assert_array_equal(projections(reading).w_q, weights["q_proj.weight"].T)


@pytest.mark.parametrize(
    "weights, choices, words",
    [
        ({"w_q": (8, 4), "w_k": (8, 4)}, {}, r"w_q, w_k but no W_v"),
        ({"w_k": (8, 4)}, {}, r"w_k but no W_q and no W_v"),
        ({"w_q": (5, 7), "w_k": (8, 4), "w_v": (8, 4)}, {}, r"w_q has shape \(5, 7\).*d_model = 8"),
        ({"w_q": (8, 4), "w_k": (4, 8), "w_v": (8, 4)}, {}, r"only|can only be \(in, out\), w_k"),
        (
            {"w_q": (8, 4, 1, 1), "w_k": (8, 4), "w_v": (8, 4)},
            {},
            r"\(8, 4, 1, 1\): expected a matrix",
        ),
        ({"w_q": (8, 6), "w_k": (8, 4), "w_v": (8, 4)}, {}, r"w_q makes 6 features and w_k 4"),
        (
            {"w_q": (8, 6), "w_k": (8, 4), "w_v": (8, 4)},
            {"heads": 2},
            r"w_k makes 4 features.*multiple of 3",
        ),
        ({"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 5)}, {"heads": 2}, r"width of w_v, 5"),
        ({"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 6)}, {"heads": 4}, r"width of w_q, 6 does not"),
        ({"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 6)}, {"heads": 2, "d_k": 2}, r"--d-k is 2"),
        ({"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 6)}, {"heads": 2, "d_v": 2}, r"--d-v is 2"),
        (
            {"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 6)},
            {"heads": 3, "kv_heads": 1},
            r"--kv-heads is 1",
        ),
        ({"w_q": (8, 4), "w_k": (8, 6), "w_v": (8, 6)}, {"heads": 2}, "multiple of the others"),
        (
            {"w_q": (8, 6), "w_k": (8, 6), "w_v": (8, 6), "w_o": (5, 9)},
            {"heads": 2},
            r"w_o has shape \(5, 9\).*heads · d_v = 6",
        ),
        (
            {"w_q": (8, 4), "w_k": (8, 4), "w_v": (8, 4), "b_q": (3,)},
            {},
            r"b_q has shape \(3,\).*\(4,\)",
        ),
        ({"w_q": (8, 4), "w_k": (8, 4), "w_v": (8, 4), "b_o": (8,)}, {}, "b_o is the bias.*no W_o"),
        ({"w_q": (8, 4), "w_k": (8, 4), "w_v": (8, 4), "qkv.weight": (8, 24)}, {}, "both make q"),
        (
            {"w_q": (8, 4), "wq": (8, 4), "w_k": (8, 4), "w_v": (8, 4)},
            {},
            "'w_q' and 'wq' both are",
        ),
        ({"qkv.weight": (24, 9)}, {}, r"qkv.weight has shape \(24, 9\)"),
        ({"qkv.weight": (20, 8)}, {"heads": 2}, r"makes 20 features, not 3 · d_model = 24"),
        ({"qkv.weight": (20, 8)}, {"kv_heads": 2}, "unknown number of query heads"),
        (
            {"qkv.weight": (20, 8)},
            {"heads": 4, "kv_heads": 1, "d_k": 4},
            "nothing is left for v|what qkv",
        ),
        ({"attn.query_key_value.weight": (24, 8)}, {}, "order that its name does not tell"),
        ({"a.w_q": (8, 4), "b.w_k": (8, 4), "b.w_v": (8, 4)}, {}, r"2 layers or modules \(a, b\)"),
        ({"mlp.fc1.weight": (8, 4)}, {}, "no projections by a known name: mlp.fc1.weight"),
        ({"w_o": (8, 4)}, {}, "no projections by a known name"),
    ],
)
def test_what_does_not_fit_names_both_shapes(
    weights: dict[str, tuple[int, ...]], choices: dict[str, Any], words: str
) -> None:
    arrays = {name: normal(*shape) for name, shape in weights.items()}
    with pytest.raises(InputError, match=words) as caught:
        with_weights(arrays, **choices)
    assert caught.value.message.startswith("layer.npz: ")
    assert "file.npz" not in caught.value.message


def test_a_layout_that_was_told_is_held_against_the_shapes() -> None:
    with pytest.raises(
        InputError, match=r"\(8, 6\), and --weights-layout says \(out, in\)"
    ) as caught:
        with_weights(STYLES["w_q"](), heads=2, weights_layout="out-in")
    assert "expected a second axis of d_model = 8" in caught.value.message


def test_several_layers_are_named() -> None:
    arrays = {
        f"h.{layer}.attn.{name}": array
        for layer in range(3)
        for name, array in {"c_attn.weight": normal(8, 24), "c_proj.weight": normal(8, 8)}.items()
    }
    with pytest.raises(InputError, match=r"h\.0\.attn, h\.1\.attn, h\.2\.attn"):
        with_weights(arrays)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_matrices_are_refused(dtype: Any) -> None:
    weights = {name: np.ones((8, 4), dtype) for name in ("w_q", "w_k", "w_v")}
    with pytest.raises(InputError, match="quantised matrix"):
        with_weights(weights)


def test_a_bool_matrix_is_no_matrix() -> None:
    weights = {name: np.ones((8, 4), bool) for name in ("w_q", "w_k", "w_v")}
    with pytest.raises(InputError, match="dtype bool"):
        with_weights(weights)


def test_precisions_are_said_and_the_widest_counts() -> None:
    half = {name: array.astype(np.float16) for name, array in STYLES["w_q"]().items()}
    reading = with_weights(half, x=X.astype(np.float32), heads=2)
    assert reading.summary.precision == "float32"
    assert said(reading, "mixed-precision").startswith(
        "the precisions differ (x float32, w_q and 3 more float16)"
    )
    assert said(reading, "dtype-widened") == "w_q, w_k, w_v, w_o are float16, widened exactly"
    assert reading.inputs.q.dtype == np.float64


def test_what_else_the_module_holds_is_a_warning() -> None:
    weights = {
        **STYLES["opt"](),
        "self_attn.q_norm.weight": normal(3),
        "mlp.fc1.weight": normal(32, 8),
    }
    reading = with_weights(weights, heads=2)
    (finding,) = [f for f in reading.findings if f.code == "ignored-weights"]
    assert finding.severity == "warning"
    assert "self_attn.q_norm.weight" in finding.message
    assert "fc1" not in finding.message
    assert said(reading, "ignored-arrays") == "not used of layer.npz: mlp.fc1.weight"


def test_per_head_matrices_bring_their_count() -> None:
    reading = with_weights(STYLES["per head"]())
    assert reading.settings.heads == 2
    assert "one matrix a head" in said(reading, "per-head-weights")
    with pytest.raises(InputError, match="--heads is 4, and the matrices have 2"):
        with_weights(STYLES["per head"](), heads=4)
    with pytest.raises(InputError, match=r"--weights-layout is out-in.*\(head, in, out\)"):
        with_weights(STYLES["per head"](), weights_layout="out-in")
