"""Every engine in float64 against goldens.json, which mpmath made at 50 digits."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from attn_cli.core.inputs import Array, AttentionInputs
from attn_cli.core.trace import STAGES, Trace
from attn_cli.stats import STATISTICS
from tests.agreement.holding import STEPWISE, lse_of, run, with_stage
from tests.agreement.samples import stored
from tests.golden.make_goldens import CASES, GOLDENS, goldens

EPS = 2.0**-52


@cache
def stored_goldens() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(GOLDENS.read_text(encoding="utf-8"))
    return loaded


def array(written: dict[str, str]) -> Array:
    shape = tuple(map(int, written["shape"].split()))
    return np.array([float.fromhex(x) for x in written["hex"].split()]).reshape(shape)


def inputs_of(name: str) -> AttentionInputs:
    written = stored_goldens()[name]["inputs"]
    given: dict[str, Any] = {key: array(value) for key, value in written.items()}
    q, k, v = given.pop("q"), given.pop("k"), given.pop("v")
    offset = int(given.pop("q_offset", np.zeros(())))
    for key in {"scale", "softcap"} & set(given):
        given[key] = float(given[key])
    if "mask" in given:
        shape = (*q.shape[:3], k.shape[2])
        keep = stored(given.pop("mask"), shape, q_offset=offset)
        return AttentionInputs(q, k, v, mask=keep, q_offset=offset, **given)
    return AttentionInputs(q, k, v, q_offset=offset, **given)


def answers_of(name: str) -> dict[str, Array]:
    return {key: array(value) for key, value in stored_goldens()[name]["answers"].items()}


def assert_golden(name: str, trace: Trace) -> None:
    """Every stage and every number a row is within a few ulp of its golden."""
    answers, inputs = answers_of(name), inputs_of(name)
    error = _score_error(inputs, answers)  # (B, H, L, 1)
    # An error of δ in the scores moves every weight by the factor exp(±2δ).
    relative = 2 * error + 8 * EPS
    largest_v = np.abs(inputs.v).max()
    for stage in STAGES:
        size = {"weights": relative, "context": relative * largest_v * inputs.shape[3]}
        bound = size.get(stage, error + EPS * np.abs(np.nan_to_num(answers[stage], neginf=0.0)))
        _assert_within(trace[stage], answers[stage], bound, f"{name} {stage}")
    np.testing.assert_array_equal(trace.empty, answers["empty"].astype(bool))
    _assert_within(lse_of(trace), answers["lse"], 2 * error[..., 0] + 4 * EPS, f"{name} lse")
    largest = _largest_numbers(inputs, answers)
    for statistic in STATISTICS:
        bound = relative[..., 0] * largest.get(statistic, np.ones(1))
        _assert_within(trace.stats[statistic], answers[statistic], bound, f"{name} {statistic}")


def _score_error(inputs: AttentionInputs, answers: dict[str, Array]) -> Array:
    """(B, H, L, 1): d_k products, each rounded, then every later step."""
    group = inputs.shape[1] // inputs.kv_heads
    products = np.abs(inputs.q) @ np.abs(inputs.k).repeat(group, 1).mT * inputs.effective_scale
    # Adding −1e9 rounds what it is added to; that counts in rows that have nothing else.
    size = np.where(answers["weights"] > 0, np.abs(answers["masked"]), 0)
    largest = np.maximum(products, np.nan_to_num(size)).max(-1, keepdims=True)
    return np.asarray(4 * EPS * np.maximum(largest, 1))


def _largest_numbers(inputs: AttentionInputs, answers: dict[str, Array]) -> dict[str, Array]:
    """How large a statistic or what it is made of may be, where that is not 1."""
    spread = np.nan_to_num(answers["masked"], neginf=0.0)
    shift = np.where(answers["weights"] > 0, spread.max(-1, keepdims=True) - spread, 0).max(-1)
    entropy = 2 + np.log(inputs.shape[3]) + np.minimum(shift, 4)
    distance = inputs.shape[3] + (inputs.q_offset or 0) + inputs.shape[2]
    return {
        "entropy": entropy,
        "effective_keys": inputs.shape[3] * entropy,
        "normalized_entropy": entropy / np.log(2),
        "mean_distance": np.full(1, float(distance)),
    }


def _assert_within(came: Array, right: Array, bound: Array, what: str) -> None:
    same_class = (np.isnan(came) & np.isnan(right)) | (came == right) | np.isfinite(came - right)
    assert same_class.all(), f"{what}: {came} for {right}"
    off = np.abs(np.where(came == right, 0, came - right)) > bound
    assert not off.any(), f"{what}: {came[off]} for {right[off]}"


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(invalid="ignore"):  # −inf − (−inf), in the comparison itself
        yield


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", STEPWISE)
def test_an_engine_gives_the_golden_numbers(engine: str, name: str) -> None:
    assert_golden(name, run(engine, inputs_of(name)))


def test_the_script_makes_the_file() -> None:
    assert goldens() == stored_goldens()


def test_every_statistic_has_goldens() -> None:
    assert set(STATISTICS) <= set(answers_of("plain")), "give make_goldens.py its definition"


@pytest.mark.parametrize("what", [*STAGES, *STATISTICS])
def test_the_assertion_finds_one_number_a_little_off(what: str) -> None:
    trace = run("numpy", inputs_of("grouped"))
    assert_golden("grouped", trace)
    if what in STAGES:
        trace = with_stage(trace, what, lambda array: array)
    wrong = trace[what] if what in STAGES else trace.stats[what]
    wrong[1, 2, 2] *= 1 + 1e-12
    with pytest.raises(AssertionError, match=what):
        assert_golden("grouped", trace)
    wrong[1, 2, 2] = np.nan
    with pytest.raises(AssertionError, match=what):
        assert_golden("grouped", trace)
