"""Faults planted in a stage are found as that stage's own, and what comes after as inherited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.results_diff import DiffResult
from attn_cli.core.settings import Choices
from attn_cli.workflows import diff_engines
from attn_cli.workflows.diff import diff
from attn_cli.workflows.diff_options import DiffOptions
from tests.unit.workflows.faulty import FAULTS, Fault, flipped_cell, one_nan, planted, scaled

OPTIONS = DiffOptions(
    choices=Choices(masks=("causal",), kv_heads=2, softcap=20.0, positions="alibi"),
    shape=(2, 4, 9, 8),
)
STAGES = ("q", "k", "v", "scores", "scaled", "softcapped", "biased", "masked", "weights", "context")
FED_BY = {"q": "scores", "k": "scores", "v": "context"}  # the first stage that reads it


def compared(faults: Mapping[str, Fault], *, swap: bool = False) -> DiffResult:
    """numpy in float32 against the engine with these faults, on the right or on the left."""
    with planted(faults):
        sides = "faulty@float32-vs-numpy@float32" if swap else "numpy@float32-vs-faulty@float32"
        return diff(sides, None, OPTIONS)


def own_faults(result: DiffResult) -> dict[str, tuple[str, ...]]:
    return {stage.stage: stage.faulty for stage in result.stages if stage.faulty}


def test_right_code_has_no_fault() -> None:
    result = compared({})
    assert [stage.stage for stage in result.stages] == list(STAGES)
    assert own_faults(result) == {}
    assert result.first_difference is None
    assert not any(stage.inheriting for stage in result.stages)


@pytest.mark.parametrize("swap", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_is_its_own_stages_and_what_follows_inherits(
    stage: str, fault: str, swap: bool
) -> None:
    result = compared({stage: FAULTS[fault]}, swap=swap)
    side = "left" if swap else "right"
    assert own_faults(result) == {stage: (side,)}
    assert result.first_difference == stage
    after = STAGES[STAGES.index(FED_BY.get(stage, stage)) :]
    for found in result.stages:
        if found.verdict == "different" and found.stage != stage:
            assert found.stage in after
            assert found.inheriting == (side,)
        other = found.left if side == "right" else found.right
        assert not other.beyond


def test_one_flipped_cell_of_the_mask_is_found_with_its_place() -> None:
    result = compared({"masked": flipped_cell})
    assert own_faults(result) == {"masked": ("right",)}
    masked = next(stage for stage in result.stages if stage.stage == "masked")
    assert dict(masked.where) == {"batch": 0, "head": 1, "query": 3, "key": 5}
    assert masked.nonfinite == {"left": {"-inf": 2}}  # one cell in each of two items
    pattern = next(fact for fact in masked.signature if fact.name == "pattern")
    assert pattern.numbers["relation"] == "superset"
    assert pattern.numbers["left_only"] == 2


@pytest.mark.parametrize("second", ["softcapped", "masked", "weights", "context"])
def test_two_faults_in_one_run_are_both_found(second: str) -> None:
    spoil = flipped_cell if second == "masked" else scaled
    result = compared({"scaled": scaled, second: spoil})
    assert own_faults(result) == {"scaled": ("right",), second: ("right",)}


def test_a_nan_is_inherited_by_what_it_reaches() -> None:
    result = compared({"scores": one_nan})
    assert own_faults(result) == {"scores": ("right",)}
    by_name = {stage.stage: stage for stage in result.stages}
    assert by_name["scores"].nonfinite == {"right": {"nan": 2}}
    assert by_name["context"].inheriting == ("right",)
    assert by_name["context"].right.error == np.inf


def test_faults_are_found_head_by_head_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_engines, "WHOLE", 0)
    with planted({"weights": lambda array: array * np.float32(1.01)}):
        result = diff("numpy@float32-vs-faulty@float32", None, OPTIONS)
    assert own_faults(result) == {"weights": ("right",)}
    assert any(finding.code == "head-by-head" for finding in result.findings)
    by_name = {stage.stage: stage for stage in result.stages}
    assert by_name["k"].elements == 2 * 2 * 9 * 8
    assert by_name["q"].elements == 2 * 4 * 9 * 8
    assert by_name["weights"].where["head"] <= 3


def test_one_percent_of_scale_in_float32_is_a_difference_with_its_ratio() -> None:
    result = compared({"scaled": scaled})
    found = next(stage for stage in result.stages if stage.stage == "scaled")
    ratio = next(fact for fact in found.signature if fact.name == "ratio")
    np.testing.assert_allclose(1 / ratio.numbers["slope"], 1.01, rtol=1e-6)
    assert ratio.numbers["error"] < 1e-6


def test_swapped_heads_are_known_again() -> None:
    result = compared({"q": lambda array: array[[1, 0, 2, 3]].copy()})
    q = next(stage for stage in result.stages if stage.stage == "q")
    facts = {fact.name: fact for fact in q.signature}
    assert facts["heads"].numbers["differ"] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [[0, 0], [0, 1]] in facts["values"].numbers["swapped"]


def test_a_scale_that_bfloat16_hides_shows_in_the_slope() -> None:
    """2⁻⁷ off is within the rounding of every element, and far beyond that of all together."""
    with planted({"scaled": lambda array: array * np.float32(1 + 2**-7)}):
        options = replace(OPTIONS, choices=Choices(), shape=(1, 2, 64, 32))
        result = diff("torch@bfloat16-vs-faulty@float32", None, options)
    by_name = {stage.stage: stage for stage in result.stages}
    assert by_name["scaled"].verdict == "rounding"
    slope = next(finding for finding in result.findings if finding.code == "slope")
    assert slope.where.stage == "scaled"
    assert by_name["scaled"].faulty == ("right",)  # by float32, which it claims
