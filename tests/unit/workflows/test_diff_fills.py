"""Dumps that hide with finite numbers: another value than −∞, a convention, and no fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.core.settings import Choices
from tests.unit.workflows.dumping import npz
from tests.unit.workflows.test_diff_dumps import by_name, codes, compared, own_faults

FILLS = [-1e9, float(np.finfo(np.float32).min), -1e4 - 2048]
SEEN = np.tri(5, dtype=bool)


def dump(fill: float, seen: np.ndarray[Any, Any] = SEEN) -> dict[str, Any]:
    """Attention by hand in float32, its hidden scores filled."""
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(3, 2, 3, 5, 4)).astype(np.float32)
    scaled = (q @ k.swapaxes(-1, -2)) / np.float32(2)
    masked = np.where(seen, scaled, np.float32(fill))
    with np.errstate(invalid="ignore"):
        e = np.exp(masked - masked.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    stages = {"q": q, "k": k, "v": v, "scaled": scaled, "masked": masked, "weights": weights}
    return stages | {"context": weights @ v}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("mask", [Choices(), Choices(masks=("causal",))])
def test_a_fill_is_nobodys_fault(tmp_path: Path, fill: float, mask: Choices) -> None:
    paths = npz(tmp_path / "a.npz", dump(-np.inf)), npz(tmp_path / "b.npz", dump(fill))
    result = compared(*paths, choices=mask)
    assert (result.first_difference, own_faults(result)) == ("masked", {})
    assert by_name(result)["masked"].nonfinite == {"left": {"-inf": 60}}
    assert by_name(result)["weights"].verdict == "identical"
    assert not any(stage.left.beyond or stage.right.beyond for stage in result.stages)
    (said,) = [found.message for found in result.findings if found.code == "finite-fill"]
    assert said.startswith("right hides 60 masked scores with a fill such as -")


@pytest.mark.parametrize("fill", FILLS)
def test_an_additive_mask_of_fills_hides_as_infinity_does(tmp_path: Path, fill: float) -> None:
    added = np.where(SEEN, 0, np.float32(fill)).astype(np.float32)
    right = dump(fill) | {"additive_mask": added}
    paths = npz(tmp_path / "a.npz", dump(-np.inf)), npz(tmp_path / "b.npz", right)
    result = compared(*paths, choices=Choices())
    assert own_faults(result) == {}
    assert by_name(result)["weights"].verdict == "identical"
    assert not any(stage.left.beyond or stage.right.beyond for stage in result.stages)


def test_a_row_of_fills_alone_is_not_masked_and_differs(tmp_path: Path) -> None:
    seen = SEEN & (np.arange(5) != 0)[:, None]
    zeros = dump(-np.inf, seen)
    for name in ("weights", "context"):
        zeros[name] = np.nan_to_num(zeros[name])
    paths = npz(tmp_path / "a.npz", zeros), npz(tmp_path / "b.npz", dump(-1e9, seen))
    result = compared(*paths, choices=Choices())
    assert by_name(result)["weights"].verdict == "different"


def test_a_cell_that_only_one_side_hides_still_differs(tmp_path: Path) -> None:
    opened = SEEN.copy()
    opened[2, 3] = True
    paths = npz(tmp_path / "a.npz", dump(-np.inf)), npz(tmp_path / "b.npz", dump(-1e9, opened))
    result = compared(*paths, choices=Choices(masks=("causal",)))
    assert result.first_difference == "masked"
    assert own_faults(result)["masked"] == ("right",)


def test_large_negative_scores_that_are_looked_at_stay(tmp_path: Path) -> None:
    stages = dump(-np.inf)
    stages["masked"] = np.where(SEEN, stages["scaled"] - np.float32(20_000), -np.inf)
    paths = npz(tmp_path / "a.npz", stages), npz(tmp_path / "b.npz", stages)
    assert "finite-fill" not in codes(compared(*paths, choices=Choices()))
