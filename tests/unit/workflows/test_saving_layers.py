"""Saving a layer's run: what is written is read again as INPUT and gives the same stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli import formats
from attn_cli.core.dump import Dump
from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.recognize import understand
from attn_cli.workflows.run import RunOptions, run_reading
from tests.unit.recognize.dumps import dump_of, normal, qkv
from tests.unit.recognize.layers import STYLES

X = normal(2, 4, 8, seed=20)
TOKENS = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]


def run(dump: Dump, weights: Dump | None, save: Path | None, **choices: Any) -> RunResult:
    """A run with everything kept, and saved where a path is given."""
    reading = understand(dump, Choices(**choices), weights=weights)
    options = RunOptions(
        choices=Choices(**choices), save=None if save is None else str(save), dtype="float64"
    )
    return run_reading(reading, options)


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # arrays of the input, arrays of --weights, options
    "projections": ({"x": X}, STYLES["w_q"](), {"heads": 2}),
    "biases, out-in": ({"x": X}, STYLES["opt"](), {"heads": 2, "masks": ("causal",)}),
    "grouped": (
        {"x": X},
        {"w_q": normal(8, 12), "w_k": normal(8, 4), "w_v": normal(8, 10)},
        {"heads": 6},
    ),
    "square": (
        {"x": X},
        {f"w_{part}": normal(8, 8, seed=i) for i, part in enumerate("qkvo")},
        {"heads": 2, "weights_layout": "out-in"},
    ),
    "drawn": ({"x": X}, {}, {"init": "default", "seed": 9, "heads": 2, "d_k": 6, "d_v": 3}),
    "sinusoidal": ({"x": X}, {}, {"positions": "sinusoidal", "heads": 2}),
    "learned": (
        {"x": X},
        {**STYLES["w_q"](), "wpe.weight": normal(9, 8, seed=7)},
        {"heads": 2, "positions": "learned"},
    ),
    "rope": ({"x": X}, {}, {"init": "xavier", "positions": "rope:interleaved", "rope_base": 50.0}),
    "alibi": ({"x": X}, {}, {"init": "xavier", "heads": 4, "positions": "alibi", "scale": "none"}),
    "relative": (
        {"x": X, "relative_attention_bias": normal(8, 2, seed=6)},
        STYLES["w_q"](),
        {
            "heads": 2,
            "positions": "relative",
            "relative_bidirectional": False,
            "max_distance": 20,
            "masks": ("causal",),
        },
    ),
    "another sequence": (
        {"x": X, "context": normal(2, 6, 5, seed=8)},
        {},
        {"init": "xavier", "heads": 2},
    ),
    "another sequence with positions": (
        {"x": X, "context": normal(2, 6, 8, seed=8)},
        STYLES["w_q"](),
        {"heads": 2, "positions": "sinusoidal", "align": "lower-right", "masks": ("causal",)},
    ),
    "rope on q and k": (qkv((1, 2, 5, 6)), {}, {"positions": "rope"}),
    "alibi on q and k": (
        qkv((1, 3, 2, 6), (1, 3, 5, 6)),
        {},
        {"positions": "alibi", "align": "lower-right"},
    ),
}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("case", CASES)
def test_a_saved_run_is_read_again_and_gives_the_same_stages(
    case: str, suffix: str, tmp_path: Path
) -> None:
    arrays, weights, choices = CASES[case]
    texts = {"tokens": TOKENS} if "x" in arrays else {}
    layer = dump_of(**weights, source="layer.npz") if weights else None
    path = tmp_path / f"run{suffix}"
    first = run(dump_of(**arrays, texts=texts), layer, path, **choices)
    saved = formats.read(str(path))
    again = run(saved, None, tmp_path / f"again{suffix}")
    kept = formats.read(str(tmp_path / f"again{suffix}"))
    assert [step.stage for step in again.shapes] == [step.stage for step in first.shapes]
    for step in first.shapes:
        np.testing.assert_array_equal(
            kept.arrays[step.stage], saved.arrays[step.stage], err_msg=step.stage
        )
    assert again.labels == first.labels
    for name in ("heads", "kv_heads", "positions", "rope_base", "scale", "align"):
        assert getattr(again.settings, name) == getattr(first.settings, name), name


def test_what_makes_q_k_and_v_lies_beside_the_stages(tmp_path: Path) -> None:
    arrays, weights, choices = CASES["learned"]
    path = tmp_path / "run.npz"
    run(dump_of(**arrays), dump_of(**weights, source="layer.npz"), path, **choices)
    saved = formats.read(str(path))
    assert {"W_q", "W_k", "W_v", "W_o", "position_embeddings"} <= set(saved.arrays)
    assert {"x", "x_positions", "q", "k", "v", "merged", "output"} <= set(saved.arrays)
    assert saved.settings["weights_layout"] == "in-out"
    assert saved.settings["positions"] == "learned"
    assert "init" not in saved.settings
    np.testing.assert_array_equal(saved.arrays["W_q"], weights["w_q"])
    np.testing.assert_array_equal(saved.arrays["position_embeddings"], weights["wpe.weight"])
