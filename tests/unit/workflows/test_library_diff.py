"""diff from Python: paths, mappings and inputs, as the command takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import attn_cli
from attn_cli.errors import InputError
from tests.unit.workflows.dumping import in_numpy, npz


def test_engines_on_seeded_numbers_and_on_arrays() -> None:
    assert attn_cli.diff("numpy-vs-torch", shape=(1, 2, 5, 4)).first_difference is None
    q = np.random.default_rng(0).normal(size=(1, 2, 5, 4))
    inputs = attn_cli.AttentionInputs(q, q, q)
    for given in (inputs, {"q": q, "k": q, "v": torch.tensor(q)}):
        result = attn_cli.diff("numpy@float32-vs-torch@float64", given, mask="causal")
        assert [stage.stage for stage in result.stages][-1] == "context"
        assert result.first_difference is None
        assert result.masked is True


def test_dumps_from_memory_and_from_files(tmp_path: Path) -> None:
    right = in_numpy()
    wrong = right | {"probs": right["weights"] * np.float32(1.01)}
    del wrong["weights"]
    path = npz(tmp_path / "a.npz", right)
    for left in (path, Path(path), right):
        result = attn_cli.diff(left, wrong, mask="causal")
        assert result.first_difference == "weights"
        assert result.stages[-2].faulty == ("right",)
        assert isinstance(result, attn_cli.DiffResult)


def test_tolerances_and_maps_are_passed_on() -> None:
    right = in_numpy()
    other = {"mine": right["weights"] * np.float32(1.01)}
    result = attn_cli.diff(right, other, names={"mine": "weights"}, atol=0.02)
    assert (result.first_difference, len(result.stages)) == (None, 1)
    assert attn_cli.diff(right, other, names={"mine": "weights"}).first_difference == "weights"


@pytest.mark.parametrize("left", ["numpy", "numpy-vs-nothing"])
def test_what_is_no_pair_is_refused(left: str) -> None:
    with pytest.raises(InputError):
        attn_cli.diff(left, np.ones((2, 3)))
