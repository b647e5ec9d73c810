"""Right code is not called different: hundreds of stage comparisons over random inputs."""

from __future__ import annotations

import pytest

from benchmarks.false_alarms import RUNS, count
from tests.agreement.holding import CPU_DTYPES

pytestmark = pytest.mark.usefixtures("untraced_flex")


def test_no_false_alarm_in_hundreds_of_comparisons() -> None:
    verdicts, alarms = count(210, seed=2, longest=24)
    assert sum(verdicts.values()) >= 500
    assert alarms == []
    # The budget says something: hardly anything is bit-equal below float64.
    assert verdicts["bfloat16", "rounding"] > 10 * verdicts["bfloat16", "identical"]


def test_every_engine_and_precision_takes_part() -> None:
    assert sorted(RUNS) == sorted(CPU_DTYPES)
