"""NaN and ±inf mean the same to every engine: shown where seen, of no effect where hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.trace import STAGES, Trace
from tests.agreement.holding import ENGINE_DTYPES, STEPWISE, assert_same_classes, lse_of, run
from tests.agreement.samples import INF, built, drawn, normal

NAN = float("nan")
DTYPES = sorted({dtype for _, dtype in ENGINE_DTYPES})


def causal(seed: int, **sizes: int) -> AttentionInputs:
    plain = drawn(seed, batch=2, heads=4, kv_heads=2, **sizes)
    return replace(plain, mask=built("causal", plain))


def padded(seed: int) -> AttentionInputs:
    """Keys 3 and 4 of both items are hidden from every row."""
    plain = drawn(seed, batch=2, heads=4, kv_heads=2)
    return replace(plain, mask=built("padding(3)", plain))


def put(
    inputs: AttentionInputs, name: str, where: tuple[int, ...], value: float
) -> AttentionInputs:
    array = getattr(inputs, name).copy()
    array[where] = value
    return replace(inputs, **{name: array})


def at(array: Array, value: float, *where: int) -> Array:
    array = array.copy()
    array[where] = value
    return array


def all_scores(value: float) -> AttentionInputs:
    """Every visible score of query 0 is `value`: q is 1 there, and so are the keys' features."""
    inputs = padded(60)
    q, k = np.abs(inputs.q), np.abs(inputs.k)
    q[0, 0, 0] = 1.0
    k[0, 0, :3] = value
    return replace(inputs, q=q, k=k)


CASES: dict[str, Callable[[], AttentionInputs]] = {
    "nan in a hidden key": lambda: put(padded(50), "k", (0, 0, 4, 1), NAN),
    "nan in a hidden value": lambda: put(padded(51), "v", (0, 1, 3, 1), NAN),
    "inf in a hidden key": lambda: put(padded(50), "k", (1, 0, 4), INF),
    "inf in a hidden value": lambda: put(padded(51), "v", (0, 1, 3), -INF),
    "nan in a key that some rows see": lambda: put(causal(52), "k", (0, 0, 2, 0), NAN),
    "nan in a value that some rows see": lambda: put(causal(53), "v", (1, 1, 2, 3), NAN),
    "nan in a query": lambda: put(causal(54), "q", (0, 2, 3, 0), NAN),
    "nan in a query without a mask": lambda: put(drawn(54), "q", (0, 1, 3, 0), NAN),
    "inf in a query": lambda: put(causal(54), "q", (0, 2, 3, 0), INF),
    "inf in a value": lambda: put(causal(55), "v", (0, 0, 1, 2), INF),
    "both inf in a value": lambda: put(put(causal(55), "v", (0, 0, 1), INF), "v", (0, 0, 3), -INF),
    "inf and nan in a value": lambda: put(
        put(causal(55), "v", (0, 0, 1), INF), "v", (0, 0, 3), NAN
    ),
    "inf in a value without a mask": lambda: put(drawn(55), "v", (0, 0, 1, 2), INF),
    "inf in a value of weight 0": lambda: put(
        put(causal(56, d_k=1), "k", (0, 0, 0), -INF), "v", (0, 0, 0, 1), INF
    ),
    "inf in a key": lambda: put(causal(56, d_k=1), "k", (0, 0, 2), INF),
    "nan in the additive mask": lambda: drawn(57, additive=at(normal(1, 5, 5), NAN, 2, 3)),
    "inf in the additive mask": lambda: drawn(57, additive=at(normal(1, 5, 5), INF, 2, 3)),
    "nan added where it is hidden": lambda: replace(
        causal(58), additive=at(np.zeros((5, 5)), NAN, 1, 3)
    ),
    "nan in the bias": lambda: drawn(59, bias=at(normal(2, 5, 5), NAN, 4, 0)),
    "-inf in the bias": lambda: drawn(59, bias=at(normal(2, 5, 5), -INF, 4, 0)),
    "-inf all over a row of the bias": lambda: drawn(59, bias=at(normal(2, 5, 5), -INF, 4)),
    "every visible score -inf": lambda: all_scores(-INF),
    "every visible score inf": lambda: all_scores(INF),
    "every visible score nan": lambda: all_scores(NAN),
    "every visible score -inf with a sink": lambda: replace(
        all_scores(-INF), sinks=np.array([0.5, 1.0, 0.0, -1.0])
    ),
    "an infinite sink": lambda: replace(padded(61), sinks=np.array([INF, 1.0, 0.0, -1.0])),
    "a sink of -inf": lambda: replace(padded(61), sinks=np.array([-INF, 1.0, 0.0, -1.0])),
    "a sink of nan": lambda: replace(padded(61), sinks=np.array([NAN, 1.0, 0.0, -1.0])),
    "a sink of nan over an empty row": lambda: replace(
        drawn(62, additive=at(np.zeros((5, 5)), -INF, 2)), sinks=np.array([NAN, 1.0])
    ),
    "a sink of 0 over an empty row": lambda: replace(
        drawn(62, additive=at(np.zeros((5, 5)), -INF, 2)), sinks=np.array([0.0, 1.0])
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_engines_agree_on_what_is_not_finite(case: str) -> None:
    inputs = CASES[case]()
    for dtype in DTYPES:
        able = [engine for engine, its in ENGINE_DTYPES if its == dtype]
        traces = [run(engine, inputs, dtype) for engine in able]
        # A row that is not finite has no best keys to compare; the others agree.
        assert_same_classes([run("numpy", inputs), *traces])


@pytest.mark.parametrize("engine", STEPWISE)
def test_a_hidden_key_takes_no_part_whatever_it_holds(engine: str) -> None:
    clean = padded(50)
    for name, value in (("k", NAN), ("k", INF), ("v", NAN), ("v", -INF)):
        dirty = run(engine, put(clean, name, (0, 1, 3), value))
        right = run(engine, clean)
        for stage in ("masked", "weights", "context"):
            np.testing.assert_array_equal(dirty[stage], right[stage])
        _assert_numbers_equal(dirty, right)


@pytest.mark.parametrize("engine", STEPWISE)
def test_a_bad_key_touches_only_the_rows_that_see_it(engine: str) -> None:
    dirty = run(engine, put(causal(52), "k", (0, 0, 2, 0), NAN))
    clean = run(engine, causal(52))
    lost = np.isnan(dirty["context"]).all(-1)
    expected = np.zeros((2, 4, 5), bool)
    expected[0, :2, 2:] = True  # key head 0 serves query heads 0 and 1
    np.testing.assert_array_equal(lost, expected)
    np.testing.assert_array_equal(dirty["context"][~lost], clean["context"][~lost])
    hidden = ~np.tril(np.ones((5, 5), bool))
    assert (dirty["weights"][:, :, hidden] == 0).all()


@pytest.mark.parametrize("engine", STEPWISE)
def test_a_bad_value_comes_out_as_the_formula_has_it(engine: str) -> None:
    plus = run(engine, put(causal(55), "v", (0, 0, 1, 2), INF))["context"]
    assert (plus[0, :2, 1:, 2] == INF).all()
    assert np.isfinite(np.delete(plus, 2, axis=3)).all()
    assert np.isfinite(plus[0, :2, 0]).all()
    both = put(put(causal(55), "v", (0, 0, 1, 2), INF), "v", (0, 0, 3, 2), -INF)
    context = run(engine, both)["context"]
    assert (context[0, 0, 1:3, 2] == INF).all()
    assert np.isnan(context[0, 0, 3:, 2]).all()  # inf − inf


@pytest.mark.parametrize("engine", STEPWISE)
def test_a_row_of_visible_scores_at_minus_inf_is_nan_and_not_empty(engine: str) -> None:
    trace = run(engine, all_scores(-INF))
    assert np.isnan(trace["context"][0, 0, 0]).all()
    assert np.isnan(trace.stats["sum"][0, 0, 0])
    assert not trace.empty.any()
    with_sink = run(engine, replace(all_scores(-INF), sinks=np.full(4, 0.5)))
    assert (with_sink["weights"][0, 0, 0] == 0).all()
    assert lse_of(with_sink)[0, 0, 0] == 0.5


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("fill", [-1e9, float(np.finfo(np.float32).min)])
def test_a_finite_fill_of_a_whole_row_by_precision(engine: str, fill: float) -> None:
    """float64: the constant cancels; float32: the scores are lost; float16: the fill is −inf."""
    inputs = drawn(63, additive=at(np.zeros((5, 5)), fill, 2))
    plain = run(engine, drawn(63))["weights"][0, :, 2]
    row = {
        dtype: run(engine, inputs, dtype)["weights"][0, :, 2] for dtype in ("float32", "float16")
    }
    if fill == -1e9:
        np.testing.assert_allclose(run(engine, inputs)["weights"][0, :, 2], plain, atol=1e-6)
    np.testing.assert_array_equal(row["float32"], np.full((2, 5), np.float32(0.2)))
    assert np.isnan(row["float16"]).all()


def _assert_numbers_equal(a: Trace, b: Trace) -> None:
    for name in a.stats:
        np.testing.assert_array_equal(a.stats[name], b.stats[name], err_msg=name)


def test_the_check_of_classes_fails_where_one_side_is_nan() -> None:
    trace = run("numpy", drawn(64))
    for stage in STAGES:
        other = run("numpy", drawn(64))
        other[stage][0, 0, 0, 0] = NAN
        with pytest.raises(AssertionError):
            assert_same_classes([trace, other])
