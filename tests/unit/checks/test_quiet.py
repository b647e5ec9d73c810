"""False alarms: ordinary inputs give no warning and no error, in any engine and precision."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.findings import Finding
from tests.agreement.holding import ENGINE_DTYPES, STEPWISE
from tests.agreement.samples import MASK_SAMPLES, built, drawn, masked_sample
from tests.unit.checks.checking import codes, findings


def alarms(found: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in found if finding.severity != "note"]


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
@pytest.mark.parametrize("mask", ["none", "causal", "window(4)", "window(3, both) | global(0)"])
def test_unit_normal_inputs_give_no_warning(engine: str, dtype: str, mask: str) -> None:
    for seed in range(4):
        plain = drawn(seed, batch=2, heads=4, kv_heads=2, queries=16, keys=16, d_k=32)
        inputs = replace(plain, mask=built(mask, plain))
        found = findings(inputs, engine=engine, dtype=dtype, file_precision=dtype)
        assert alarms(found) == []


@pytest.mark.parametrize("engine, dtype", ENGINE_DTYPES)
def test_rows_over_many_keys_still_sum_to_1(engine: str, dtype: str) -> None:
    plain = drawn(1, heads=1, queries=4, keys=20_000, d_k=4, d_v=1, q_offset=None)
    for scale in (0.0, None):
        found = findings(replace(plain, scale=scale), engine=engine, dtype=dtype)
        assert "row-sum" not in codes(found)


@pytest.mark.parametrize("shift", [100.0, 3000.0, 20_000.0])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_large_scores_still_sum_to_1(shift: float, dtype: str) -> None:
    for seed in range(5):
        inputs = drawn(seed, keys=64, bias=np.full((5, 64), shift), q_offset=None)
        assert "row-sum" not in codes(findings(inputs, dtype=dtype))


def test_a_right_input_says_nothing_at_all() -> None:
    assert findings(drawn(2, d_k=4)) == ()


@pytest.mark.parametrize("text", [text for texts in MASK_SAMPLES.values() for text in texts])
def test_masks_alone_bring_no_error(text: str) -> None:
    found = findings(masked_sample(text, 7, 0))
    assert {f.severity for f in found} <= {"note", "warning"}
    assert {f.code for f in alarms(found)} <= {"empty-row"}


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize("size", [1e-200, 1e100, 1e160])
def test_checks_never_make_numpy_warn(engine: str, size: float) -> None:
    inputs = drawn(3, size=size, queries=20, keys=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        findings(inputs, engine=engine, file_precision="float16")
        findings(inputs, engine=engine, dtype="float16", file_precision="float16")
