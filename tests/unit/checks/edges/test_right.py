"""What is right on a case is found as it is asked for, and the least budget is one indeed."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.checks.edges.case import Answer, Case
from attn_cli.checks.edges.judging import judge
from attn_cli.checks.edges.right import Right, right_of
from attn_cli.checks.edges.suite import make_cases
from attn_cli.core.inputs import AttentionInputs


class Giving:
    """A subject that gives one output."""

    name = "giving"

    def __init__(self, output: np.ndarray) -> None:
        self.output = output

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        return Answer(self.output)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_the_measured_budget_is_at_least_the_least(dtype: str) -> None:
    for kind in ("every-mask", "huge-scores", "one-token"):
        for case in make_cases(kind, dtype=dtype)[:4]:
            right = right_of(case)
            for stage, least in right.least.items():
                assert (least <= right.budget[stage]).all(), (case.path, stage)


def test_nothing_is_measured_for_an_answer_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_cases("every-mask")[0]
    right = right_of(case)
    shown = np.where(right.empty[..., None], 0.0, right.output)
    monkeypatch.setattr(
        "attn_cli.checks.edges.right.measure_budget", lambda *args, **more: pytest.fail("measured")
    )
    assert judge(case, Giving(shown), right).verdict == "passed"


def test_what_counts_is_the_measured_budget() -> None:
    case = _plain()
    right = right_of(case)
    least, budget = (float(b["context"].max()) for b in (right.least, right.budget))
    assert least < budget
    for off, verdict in ((0.5 * (least + budget), "passed"), (2 * budget, "failed")):
        output = right.output.copy()
        output[0, 0, 0, 0] += off
        found = judge(case, Giving(output), Right(case))
        assert found.verdict == verdict
        if found.mismatch is not None:
            assert found.mismatch.allowed == budget


def test_cases_are_as_wide_as_asked() -> None:
    widths = {case.inputs.q.shape[-1] for case in make_cases("every-mask", width=16)}
    assert widths == {16}


def _plain() -> Case:
    return next(case for case in make_cases("every-mask") if case.expected is None)
