"""Compiled FlexAttention is the eager one of the engine, within the measured budget.

Compiled once a precision; `python -m benchmarks.compiled_flex` prints the figures.
"""

from __future__ import annotations

import pytest

from benchmarks.compiled_flex import compiler, hold, question


def test_the_question_is_masked_and_has_grouped_heads() -> None:
    inputs = question()
    assert inputs.kv_heads < inputs.shape[1]
    assert inputs.visible() is not None


@pytest.mark.skipif(compiler() is None, reason="torch.compile needs a C++ compiler, and none is")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_compiled_is_eager_within_the_budget(dtype: str) -> None:
    try:
        held = hold(dtype)
    except NotImplementedError as error:
        pytest.skip(f"PyTorch does not compile it here: {error}")
    assert held.off <= held.budget
    assert held.apart <= 2 * held.budget
