"""attn diff calls no right code different, and blames none, over random inputs."""

from __future__ import annotations

import pytest

from benchmarks.diff_false_alarms import PAIRS, RUNS, count, count_dumps
from tests.agreement.holding import CPU_DTYPES

pytestmark = pytest.mark.usefixtures("untraced_flex")


def test_no_false_alarm_in_hundreds_of_comparisons() -> None:
    verdicts, alarms, refused = count(60, seed=3, longest=16)
    assert alarms == []
    assert refused == 0
    assert sum(verdicts.values()) >= 200
    assert verdicts["rounding"] > verdicts["identical"] > 0


def test_no_false_alarm_in_whole_layers() -> None:
    verdicts, alarms, _ = count(15, seed=4, longest=12, layers=True)
    assert alarms == []
    assert sum(verdicts.values()) >= 80


def test_no_false_alarm_between_dumps_that_lack_stages() -> None:
    verdicts, alarms, _ = count_dumps(40, seed=5, longest=16)
    assert alarms == []
    assert sum(verdicts.values()) >= 200


def test_every_engine_and_precision_takes_part() -> None:
    assert sorted((run.engine, run.dtype) for run in RUNS) == sorted(CPU_DTYPES)
    assert len(PAIRS) == len(RUNS) * (len(RUNS) - 1) // 2
