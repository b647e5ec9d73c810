"""Findings about scores: overflow of the file's precision, a scale that is missing or doubled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs
from tests.agreement.holding import STEPWISE
from tests.agreement.samples import built, drawn
from tests.unit.checks.checking import codes, findings, the


def large() -> AttentionInputs:
    """One score of −250,000 at item 1, head 0, query 2, key 1, and one of 90,000 before it."""
    q, k = np.ones((2, 2, 3, 1)), np.ones((2, 2, 4, 1))
    q[1, 0, 2], k[1, 0, 1] = 500.0, -500.0
    q[0, 1, 0], k[0, 1, 0] = 300.0, 300.0
    return AttentionInputs(q, k, np.ones((2, 2, 4, 1)), q_offset=None)


@pytest.mark.parametrize("engine", STEPWISE)
def test_what_would_overflow_the_files_precision(engine: str) -> None:
    found = the(findings(large(), engine=engine, file_precision="float16"), "float16-overflow")
    assert found.severity == "warning"
    assert found.message.startswith(
        "in the file's own float16, 2 of 48 scores q · k would overflow to inf: the largest is "
        "250000 at item 1, head 0, query 2, key 1, limit 65504"
    )
    assert found.where == Place("scores", 0, 1, 0, 2, 1)


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "float8_e4m3fn"])
def test_other_precisions_hold_them(precision: str) -> None:
    """float8 too: it stores q and k, and their products are kept wider."""
    assert not [c for c in codes(findings(large(), file_precision=precision)) if "overflow" in c]


def test_hidden_scores_do_not_overflow() -> None:
    inputs = replace(large(), mask=built("padding(0, 1)", large()))
    found = codes(findings(inputs, file_precision="float16"))
    assert "float16-overflow" not in found


def normal(d_k: int, **more: object) -> AttentionInputs:
    return replace(drawn(1, heads=4, queries=16, keys=16, d_k=d_k), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("d_k", [8, 64, 128])
@pytest.mark.parametrize("engine", STEPWISE)
def test_a_missing_scale_is_noticed(engine: str, d_k: int) -> None:
    found = the(findings(normal(d_k, scale=1.0), engine=engine), "scale-missing")
    assert found.severity == "note"
    assert f"1/√{d_k} would give" in found.message
    assert found.where == Place("scaled", 0)


@pytest.mark.parametrize("d_k", [8, 64, 128])
def test_a_doubled_scale_is_noticed(d_k: int) -> None:
    found = the(findings(normal(d_k, scale=1 / d_k)), "scale-doubled")
    assert found.severity == "note"
    assert "Is the scale applied twice?" in found.message


@pytest.mark.parametrize("d_k", [4, 8, 64, 256])
@pytest.mark.parametrize("mask", ["none", "causal", "window(3)"])
def test_the_right_scale_is_not_spoken_of(d_k: int, mask: str) -> None:
    plain = normal(d_k)
    assert not [c for c in codes(findings(replace(plain, mask=built(mask, plain)))) if "scale" in c]


def test_without_unit_variance_there_is_nothing_to_measure_by() -> None:
    for size in (0.3, 5.0):
        inputs = replace(normal(64, scale=1.0), q=normal(64).q * size)
        assert not [c for c in codes(findings(inputs)) if "scale" in c]


def test_a_few_scores_say_nothing() -> None:
    assert not [c for c in codes(findings(drawn(2, heads=1, d_k=64, scale=1.0))) if "scale" in c]


def test_q_that_equals_k_is_not_measured() -> None:
    """Token vectors without projections: the diagonal is |x|², about d_k."""
    x = drawn(3, heads=1, queries=8, keys=8, d_k=64).q
    assert not [c for c in codes(findings(AttentionInputs(x, x, x))) if "scale" in c]
