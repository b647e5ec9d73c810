"""Any row can be followed: whatever is read, each line follows from what is written above it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rich.console import Console

from attn_cli.core.inputs import AttentionInputs
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.explain import explain_screen
from attn_cli.workflows.explain import ExplainOptions, explain_reading
from tests.unit.workflows.layers import reading_of
from tests.unit.workflows.linking import linked
from tests.unit.workflows.recomputing import recompute

ORDINARY = st.floats(-100, 100)
EXTREME = st.one_of(
    ORDINARY,
    st.sampled_from([0.0, -0.0, 1e20, -1e-300, 5e-324, 1.7e308, np.nan, np.inf, -np.inf, 0.1]),
    st.floats(),
)
FILLS = st.sampled_from([0.0, -1e9, -np.inf, float(np.finfo(np.float64).min), -2.5, 1e4])


@st.composite
def inputs(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> AttentionInputs:
    """Small q, k and v with anything that may act on their scores."""
    kv_heads = draw(st.integers(1, 2))
    heads = kv_heads * draw(st.integers(1, 2))
    keys, d_k, d_v = (draw(st.integers(1, most)) for most in (14, 3, 2))

    def array(*shape: int, of: st.SearchStrategy[float] = numbers) -> Any:
        return draw(arrays.arrays(np.float64, shape, elements=of))

    return AttentionInputs(
        q=array(1, heads, 1, d_k),
        k=array(1, kv_heads, keys, d_k),
        v=array(1, kv_heads, keys, d_v),
        additive=draw(st.one_of(st.none(), st.just(array(1, keys, of=FILLS)))),
        bias=draw(st.one_of(st.none(), st.just(array(1, keys)))),
        scale=draw(st.one_of(st.none(), st.floats(-10, 10))),
        softcap=draw(st.one_of(st.none(), st.floats(1e-3, 100))),
        sinks=draw(st.one_of(st.none(), st.just(array(heads)))),
        q_offset=None,
    )


def follow(question: AttentionInputs, terms: int | None = None) -> dict[str, Any]:
    """The explanation of the one row, followed line by line, and shown on a narrow screen."""
    result = explain_reading(reading_of(question), ExplainOptions(query=0, terms=terms))
    fields: dict[str, Any] = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    recompute(fields)
    linked(fields)
    console = Console(file=io.StringIO(), width=80, color_system=None)
    assert "output" in explain_screen(result, Screen(console, 80, cuts=True, encoding="utf-8"))
    return fields


@settings(max_examples=20)
@given(inputs(ORDINARY), st.one_of(st.none(), st.integers(1, 5)))
def test_ordinary_rows(question: AttentionInputs, terms: int | None) -> None:
    assert follow(question, terms)["agrees"]


@settings(max_examples=40)
@given(inputs(EXTREME))
def test_rows_of_whatever_float64_holds(question: AttentionInputs) -> None:
    follow(question)
