"""Damaged models: whatever a byte becomes, a run ends well or in one line, never in a warning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.errors import AttnError
from attn_cli.workflows.run import RunOptions, run_file
from tests.unit.models.files import toy

TRIES = 150


@pytest.mark.parametrize("name, text", [("induction", "a b a"), ("sentence_model", "我喜欢苹果")])
def test_any_byte_may_change(name: str, text: str, samples: Path, tmp_path: Path) -> None:
    whole = (samples / f"{name}.safetensors").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(9)
    path = tmp_path / "damaged.safetensors"
    ended = {"well": 0, "refused": 0}
    for attempt in range(TRIES):
        content = bytearray(whole)
        end = header if attempt % 3 else len(content)
        for place in rng.integers(0, end, 1 + attempt % 2):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            run_file(str(path), RunOptions(text=text))
            ended["well"] += 1
        except AttnError:
            ended["refused"] += 1
    assert min(ended.values()) > TRIES / 20


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300])
@pytest.mark.parametrize(
    "array",
    [
        "embedding.weight",
        "layers.0.w_q",
        "layers.0.w_o",
        "layers.0.norm.weight",
        "unembedding.weight",
    ],
)
def test_numbers_beyond_all_bounds_are_reported(
    array: str, value: float, engine: str, tmp_path: Path
) -> None:
    made = toy(layers=2, norm="pre", mask="causal")
    changed = np.array(made.arrays[array])
    changed[..., 0] = value
    path = made.with_arrays({array: changed}).save(tmp_path / "toy.safetensors")
    result = run_file(path, RunOptions(text="the cat sat", engine=engine))
    codes = {finding.code for finding in result.findings}
    assert "nonfinite" in codes or value == 1e300
