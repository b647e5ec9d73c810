"""attn diff of right engines on tokens that are all alike, and on arrays of a few numbers."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_diff import DiffResult
from attn_cli.core.settings import Choices
from attn_cli.workflows.diff_engines import diff_reading
from attn_cli.workflows.diff_options import DiffOptions, engine_sides
from attn_cli.workflows.library import reading_of

pytestmark = pytest.mark.usefixtures("untraced_flex")
PAIRS = ("numpy-vs-torch", "torch-vs-sdpa:flash", "torch-vs-flex")


def compared(pair: str, dtype: str, inputs: AttentionInputs) -> DiffResult:
    sides = engine_sides(pair, dtype)
    return diff_reading(reading_of(inputs, Choices()), sides, DiffOptions())


def assert_nothing_wrong(result: DiffResult) -> None:
    for stage in result.stages:
        assert stage.verdict != "different", stage
        assert stage.faulty == (), stage
        assert not stage.left.beyond, stage
        assert not stage.right.beyond, stage
    assert not {"slope", "wrong-alike"} & {finding.code for finding in result.findings}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_alike_tokens_are_no_difference(pair: str, dtype: str, offset: float) -> None:
    """Every sum over keys adds one number again and again: the worst there is for its order."""
    for width in (3, 64):
        token = np.random.default_rng(width).normal(size=(1, 1, 1, width)).astype(np.float32) * 2
        x = np.repeat(token, 1001, axis=2)
        inputs = AttentionInputs(x[:, :, :8], x, x + np.float32(offset))
        assert_nothing_wrong(compared(pair, dtype, inputs))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_few_numbers_that_come_out_exact_by_luck_are_no_difference(dtype: str) -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        queries, keys, width = rng.integers(1, 4, 3)
        q, k, v = (
            np.round(rng.normal(size=(1, 1, n, width)) * 4) / 4 for n in (queries, keys, keys)
        )
        for pair in ("numpy-vs-torch", "torch-vs-sdpa:math"):
            assert_nothing_wrong(compared(pair, dtype, AttentionInputs(q, k + 100, v * 100)))


@pytest.mark.parametrize("pair", PAIRS)
def test_one_percent_of_the_scale_is_still_found_in_the_context_alone(pair: str) -> None:
    """Of ordinary tokens, far beyond the budget."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, 512, 64)).astype(np.float32) for _ in range(3))
    right = compared(pair, "float32", AttentionInputs(q, k, v))
    budget = next(stage for stage in right.stages if stage.stage == "context").right.budget
    scores = q @ k.mT / 8.0
    e, off = np.exp(scores), np.exp(scores * 1.01)
    gap = np.abs((e / e.sum(-1, keepdims=True) - off / off.sum(-1, keepdims=True)) @ v).max()
    assert gap > 100 * budget
