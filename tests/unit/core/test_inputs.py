"""AttentionInputs: what it refuses and in which words, and what it derives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs
from attn_cli.errors import InputError
from tests.agreement.samples import built, drawn, stored

INF = float("inf")


def arrays(**replaced: Any) -> dict[str, Any]:
    """A right question with some of it replaced; a tuple stands for an array of that shape."""
    given = {"q": (2, 4, 3, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 6), **replaced}
    return {
        name: np.zeros(value) if isinstance(value, tuple) else value
        for name, value in given.items()
    }


def test_a_right_question_is_taken_as_it_is() -> None:
    inputs = AttentionInputs(**arrays(bias=(4, 1, 5), additive=(3, 5), sinks=(4,), softcap=2.0))
    assert inputs.shape == (2, 4, 3, 5)
    assert inputs.kv_heads == 2
    assert inputs.effective_scale == 1 / np.sqrt(8)
    assert list(inputs.query_positions) == [0, 1, 2]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "three axes": ({"q": (4, 3, 8)}, r"q has shape \(4, 3, 8\): expected \(batch, heads,"),
    "five axes": ({"v": (1, 2, 2, 5, 6)}, r"v has shape .* expected \(batch, heads"),
    "no batch item": ({"q": (0, 4, 3, 8)}, "q .* an axis of size 0"),
    "no key": ({"k": (2, 2, 0, 8), "v": (2, 2, 0, 6)}, "k .* an axis of size 0"),
    "no feature": ({"v": (2, 2, 5, 0)}, "v .* an axis of size 0"),
    "bool": ({"k": np.ones((2, 2, 5, 8), bool)}, "k has dtype bool.*looks like a mask"),
    "integers": ({"q": np.ones((2, 4, 3, 8), int)}, "q has dtype int64: expected real numbers"),
    "complex": ({"q": np.ones((2, 4, 3, 8), complex)}, "q has dtype complex128"),
    "objects": ({"q": np.ones((2, 4, 3, 8), object)}, "q has dtype object"),
    "batches": ({"v": (3, 2, 5, 6)}, "q, k and v have 2, 2 and 3 batch items"),
    "key and value heads": ({"v": (2, 4, 5, 6)}, "k has 2 heads and v has 4"),
    "no multiple": ({"q": (2, 3, 3, 8)}, "q has 3 heads, k has 2: .* multiple"),
    "fewer query heads": ({"q": (2, 1, 3, 8)}, "q has 1 heads, k has 2: .* multiple"),
    "widths": ({"q": (2, 4, 3, 7)}, "q has width 7 and k has width 8"),
    "values": ({"v": (2, 2, 4, 6)}, "k has 5 positions and v has 4: every key needs its value"),
    "bias": (
        {"bias": (3, 4)},
        r"the bias has shape \(3, 4\), which does not broadcast .*2, 4, 3, 5",
    ),
    "large bias": ({"bias": (3, 2, 4, 3, 5)}, "the bias has shape"),
    "additive": ({"additive": (2, 1, 5)}, r"the additive mask has shape \(2, 1, 5\)"),
    "bool added": ({"additive": np.ones((3, 5), bool)}, "additive mask has dtype bool.*`mask`"),
    "whole bias": ({"bias": np.ones((3, 5), int)}, "the bias has dtype int64"),
    "sinks": ({"sinks": (2,)}, r"sinks has shape \(2,\): expected one number a head, \(4,\)"),
    "whole sinks": ({"sinks": np.ones(4, int)}, "sinks has dtype int64"),
    "nan scale": ({"scale": float("nan")}, "the scale is nan: expected a finite number"),
    "inf scale": ({"scale": INF}, "the scale is inf"),
    "softcap 0": ({"softcap": 0.0}, "the softcap is 0: expected a positive number"),
    "negative softcap": ({"softcap": -1.0}, "the softcap is -1"),
    "nan softcap": ({"softcap": float("nan")}, "the softcap is nan"),
    "inf softcap": ({"softcap": INF}, "the softcap is inf"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(case: str) -> None:
    replaced, words = REFUSED[case]
    with pytest.raises(InputError, match=words) as refusal:
        AttentionInputs(**arrays(**replaced))
    assert "\n" not in str(refusal.value)


def test_a_layout_that_looks_swapped_is_suggested() -> None:
    with pytest.raises(InputError, match="--layout blhd"):
        AttentionInputs(**arrays(q=(2, 3, 4, 8), k=(2, 5, 2, 8), v=(2, 5, 2, 6)))


def test_nothing_that_hides_means_all_are_visible() -> None:
    inputs = drawn(1, additive=np.ones((5, 5)), bias=np.ones((5, 5)))
    assert inputs.visible() is None
    assert inputs.visible(0) is None
    assert drawn(1).counted() is None


def test_a_mask_and_minus_inf_in_what_is_added_hide() -> None:
    additive = np.zeros((5, 5))
    additive[0, 1] = -INF
    additive[0, 2] = np.nan  # hides nothing
    bias = np.zeros((2, 1, 5))
    bias[1, 0, 3] = -INF
    inputs = drawn(2, batch=2, additive=additive, bias=bias)
    expected = np.ones((2, 2, 5, 5), bool)
    expected[:, :, 0, 1] = False
    expected[:, 1, :, 3] = False
    np.testing.assert_array_equal(inputs.visible(), expected)
    masked = drawn(2, batch=2, additive=additive, mask=built("causal", inputs))
    expected = np.broadcast_to(np.tril(np.ones((5, 5), bool)), (2, 2, 5, 5))
    np.testing.assert_array_equal(masked.visible(), expected)  # [0, 1] is hidden by both


@pytest.mark.parametrize("fill", [-1e4, -1e9, float(np.finfo(np.float64).min), -INF])
def test_a_finite_fill_takes_part_and_is_not_counted(fill: float) -> None:
    additive = np.zeros((5, 5))
    additive[2, 3:] = fill
    inputs = drawn(3, additive=additive)
    counted = inputs.counted()
    assert counted is not None
    np.testing.assert_array_equal(counted.sum(-1)[0, 0], [5, 5, 3, 5, 5])
    assert (inputs.visible() is None) == np.isfinite(fill)


def test_a_number_above_the_fill_is_counted() -> None:
    inputs = drawn(3, additive=np.full((5, 5), -9999.0))
    counted = inputs.counted()
    assert counted is not None
    assert counted.all()


@pytest.mark.parametrize("item", [0, 1])
def test_one_item_is_the_same_as_its_part_of_all(item: int) -> None:
    plain = drawn(4, batch=2, queries=3, keys=4, additive=np.array([[0.0, -INF, -1e9, 0]] * 3))
    keep = np.random.default_rng(5).random((2, 2, 3, 4)) < 0.6
    inputs = AttentionInputs(
        plain.q, plain.k, plain.v, additive=plain.additive, mask=stored(keep, plain.shape)
    )
    for whole, part in (
        (inputs.visible(), inputs.visible(item)),
        (inputs.counted(), inputs.counted(item)),
        (inputs.keep(), inputs.keep(item)),
        (inputs.added(), inputs.added(item)),
    ):
        assert whole is not None
        assert part is not None
        assert part.shape == inputs.shape[1:]
        np.testing.assert_array_equal(part, whole[item])


@pytest.mark.parametrize("q_offset, first", [(0, 0), (3, 3), (-2, -2), (None, 0)])
def test_queries_stand_where_they_were_put(q_offset: int | None, first: int) -> None:
    assert drawn(6, queries=4, q_offset=q_offset).query_positions == range(first, first + 4)
