"""Attn's own engines pass the boundary cases in every precision that they compute in."""

from __future__ import annotations

import pytest
import torch

from attn_cli.checks.edges.subjects import EngineSubject
from attn_cli.checks.edges.suite import hold, make_cases
from attn_cli.engines import ENGINES, OURS
from tests.unit.checks.edges.running import held

torch.set_num_threads(1)  # handing out small tensors costs more than computing them

ENGINE_DTYPES = [
    (name, dtype)
    for name in OURS
    for dtype in (None, "float32", "float16", "bfloat16")
    if dtype is None or dtype in ENGINES[name].can.dtypes
]


@pytest.mark.parametrize("name, dtype", ENGINE_DTYPES)
def test_an_engine_passes_the_boundary_cases(name: str, dtype: str | None) -> None:
    done = held(EngineSubject(name), dtype)
    assert {path: d.mismatch or d.reason for path, d in done.items() if d.verdict == "failed"} == {}
    assert "passed" in {d.verdict for d in done.values()}


@pytest.mark.parametrize("name", OURS)
def test_these_engines_support_all_in_their_precisions(name: str) -> None:
    """What they do not support is a precision, never a setting."""
    refused = {path for path, d in held(EngineSubject(name)).items() if d.verdict == "unsupported"}
    kinds = {path.partition("/")[0] for path in refused}
    assert kinds == ({"bfloat16"} if name == "numpy" else set())


def test_another_seed_asks_other_numbers_and_passes_too() -> None:
    cases = make_cases("grouped-heads", seed=7)
    first = make_cases("grouped-heads")[0]
    assert (cases[0].inputs.q != first.inputs.q).any()
    verdicts = [done.verdict for _, _, done in hold(cases, [EngineSubject("torch")])]
    assert verdicts == ["passed"] * len(cases)


NOT_HIDDEN = {"nan-in-hidden-key", "nan-in-hidden-value", "inf-in-hidden", "nonfinite-visible"}
HIDDEN = {"empty-row", "grouped-heads", "long-distance", "memory-layout"}


@pytest.mark.parametrize("name", ["sdpa", "flex"])
def test_pytorchs_attention_fails_where_hidden_numbers_are_not_finite(name: str) -> None:
    """0 · NaN is NaN: a fact of these kernels, found by these kinds and no others."""
    cases = [case for kind in (*NOT_HIDDEN, *HIDDEN) for case in make_cases(kind)]
    done = hold(cases, [EngineSubject(name)])
    failed = {case.path for case, _, judgement in done if judgement.verdict == "failed"}
    behind = {"empty-row/with-nan-behind"}
    assert behind <= failed
    assert {path.partition("/")[0] for path in failed - behind} <= NOT_HIDDEN
    assert "nan-in-hidden-value/padding" in failed


def test_multihead_attention_fails_where_a_row_sees_nothing() -> None:
    done = held(EngineSubject("mha"))
    wrong = [d.mismatch for d in done.values() if d.verdict == "failed"]
    assert wrong
    assert {m.words for m in wrong if m is not None} == {"a row that sees no key gives 0"}
