"""Conventions of dumps: scores that hold the scale are nobody's fault, a scale forgotten is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from attn_cli.core.settings import Choices
from tests.unit.workflows.dumping import in_numpy, npz
from tests.unit.workflows.test_diff_dumps import CAUSAL, by_name, codes, compared, own_faults


def test_a_convention_of_both_sides_is_nobodys_fault(tmp_path: Path) -> None:
    stages = in_numpy()
    held = {name: stages[name] for name in ("q", "k", "v", "weights")} | {
        "scores": stages["scaled"]
    }
    result = compared(npz(tmp_path / "a.npz", held), npz(tmp_path / "b.npz", held))
    assert own_faults(result) == {}
    assert not by_name(result)["scores"].left.beyond
    assert "wrong-alike" not in codes(result)


def test_scores_that_are_lacking_are_made_by_the_convention_of_those_that_are_there(
    tmp_path: Path,
) -> None:
    stages = in_numpy()
    held = {name: stages[name] for name in ("q", "k", "v", "weights", "context")}
    left = npz(tmp_path / "a.npz", held | {"scores": stages["scaled"]})
    result = compared(left, npz(tmp_path / "b.npz", held))
    assert by_name(result)["scores"].right.derived
    assert (result.first_difference, own_faults(result)) == (None, {})


def test_scores_that_hold_the_scale_begin_the_formula_with_it(tmp_path: Path) -> None:
    stages = in_numpy()
    held = {"scores": stages["scaled"], "weights": stages["weights"]}
    choices = dataclasses.replace(CAUSAL, scale=1 / np.sqrt(stages["q"].shape[-1]))
    paths = (npz(tmp_path / f"{name}.npz", held) for name in "ab")
    result = compared(*paths, choices=choices)
    assert not any(stage.left.beyond or stage.right.beyond for stage in result.stages)
    assert own_faults(result) == {}


def test_the_scale_forgotten_behind_raw_scores_is_the_fault_of_the_side_that_forgot_it(
    tmp_path: Path,
) -> None:
    """Against scores that hold it, under a mask that nobody gave."""
    right = in_numpy(spoil=lambda name, array: array * 2.5 if name == "scaled" else array)
    stages = in_numpy()
    del right["scaled"]
    ours = {name: stages[name] for name in right} | {"scores": stages["scaled"]}
    paths = npz(tmp_path / "a.npz", ours), npz(tmp_path / "b.npz", right)
    result = compared(*paths, choices=Choices())
    assert result.first_difference == "scores"
    assert own_faults(result) == {"masked": ("right",)}


def test_heads_merged_in_the_wrong_order_are_that_sides_own_fault(tmp_path: Path) -> None:
    stages = in_numpy()
    batch, heads, length, width = stages["context"].shape
    merged = stages["context"].swapaxes(1, 2).reshape(batch, length, heads * width)
    wrong = stages["context"].reshape(batch, length, heads * width)
    left = npz(tmp_path / "a.npz", stages | {"merged": merged})
    result = compared(left, npz(tmp_path / "b.npz", stages | {"merged": wrong}))
    assert own_faults(result) == {"merged": ("right",)}
