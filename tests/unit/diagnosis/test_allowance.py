"""The time for all calls together: what is asked while there is some, and that the rest is said."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attn_cli.core.results_impl import ImplResult
from attn_cli.diagnosis.allowance import Allowance
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.workflows.check.boundary import BoundarySuite
from attn_cli.workflows.check.impl import check_impl

Clock = list[float]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that only the code under test moves."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def slow(clock: Clock, seconds: float, *, wrong: bool = False) -> Callable[..., Any]:
    """Attention, each call of which takes `seconds`."""

    def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        """mask: True = may attend."""
        clock[0] += seconds
        scores = q @ k.transpose(-1, -2) / (1 if wrong else math.sqrt(q.shape[-1]))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, -1) @ v

    return attend


def verdict(clock: Clock, seconds: float, *, wrong: bool = False, total: float = 60) -> ImplResult:
    code = slow(clock, seconds, wrong=wrong)
    lines = BoundarySuite() if seconds > 0.1 else None
    return check_impl(code, say(), total=total, trace=False, lines=lines)


def codes(result: ImplResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.severity == "warning"]


def test_fast_code_is_asked_everything(clock: Clock) -> None:
    result = verdict(clock, 0.001)
    assert result.verdict == "correct"
    assert result.asked.probes == result.asked.of == len(result.probes)
    assert (result.asked.left_out, result.asked.seconds) == ((), None)
    assert codes(result) == []


def test_too_few_probes_are_not_called_correct_and_it_is_said(clock: Clock) -> None:
    result = verdict(clock, 1.0)
    assert result.verdict == "undecided"
    assert clock[0] < 70
    assert 0 < result.asked.probes < result.asked.of
    assert result.asked.seconds == 60
    assert result.asked.left_out == ("whether it keeps something between calls",)
    assert codes(result) == ["probes-left-out", "not-tried"]
    assert result.to_dict()["asked"]["probes"] == len(result.probes)


def test_a_mistake_of_slow_code_is_named_all_the_same(clock: Clock) -> None:
    result = verdict(clock, 1.0, wrong=True)
    assert result.verdict == "wrong"
    assert [mistake.code for mistake in result.mistakes] == ["scale_missing"]
    assert "probes-left-out" in codes(result)


def test_most_of_the_probes_are_enough_and_the_rest_is_said(clock: Clock) -> None:
    result = verdict(clock, 1.0, total=80)
    assert result.asked.of * 2 / 3 <= result.asked.probes < result.asked.of
    assert result.verdict == "correct"
    assert "probes-left-out" in codes(result)


def test_trials_alone_may_not_take_all_of_it(clock: Clock) -> None:
    with pytest.raises(Unusable, match="after 24 seconds of trial calls") as raised:
        verdict(clock, 5.0)
    assert "--total-time" in raised.value.hint


def test_what_is_left_out_is_taken_down_once(clock: Clock) -> None:
    allowance = Allowance(10)
    assert not allowance.spent(0.5, "this")
    clock[0] = 5
    assert allowance.spent(0.5, "that")
    assert allowance.spent(0.5, "that")
    assert (allowance.left_out, allowance.left(1)) == (["that"], 5)
