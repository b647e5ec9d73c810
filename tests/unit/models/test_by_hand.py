"""A model's logits and weights against plain NumPy, for every kind of layer and both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.workflows.library_model import run_model
from tests.unit.models.by_hand import logits_by_hand
from tests.unit.models.files import WORDS, Toy, toy

TEXT = "the cat sat . the cat"
IDS = [WORDS.index(word) for word in TEXT.split()]

KINDS: dict[str, dict[str, Any]] = {
    "bare": {"residual": False},
    "residual": {},
    "causal": {"mask": "causal"},
    "norm before": {"norm": "pre", "mask": "causal"},
    "norm after": {"norm": "post", "norm_eps": 1e-3},
    "norm after, no residual": {"norm": "post", "residual": False},
    "learned positions": {"positions": "learned", "mask": "causal"},
    "learned positions, norm before": {"positions": "learned", "norm": "pre"},
    "sinusoidal positions": {"positions": "sinusoidal"},
    "rope": {"positions": "rope", "rope_base": 100.0},
    "rope, interleaved": {"positions": "rope:interleaved"},
    "alibi": {"positions": "alibi", "mask": "causal"},
    "relative bias": {"positions": "relative"},
    "grouped queries": {"heads": 4, "kv_heads": 2, "mask": "causal"},
    "no scale, softcap": {"scale": "none", "softcap": 2.0},
    "a scale": {"scale": 0.25},
}


def made(kind: str, *, layers: int, final_norm: bool) -> Toy:
    model = toy(layers=layers, seed=11, **KINDS[kind])
    return model.with_arrays({"final_norm.weight": np.linspace(0.5, 2, 6)}) if final_norm else model


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("layers, final_norm", [(1, False), (3, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_what_the_formulas_say(
    kind: str, layers: int, final_norm: bool, engine: str, tmp_path: Path
) -> None:
    model = made(kind, layers=layers, final_norm=final_norm)
    logits, weights = logits_by_hand(model, IDS)
    trace = run_model(model.save(tmp_path / "toy.safetensors"), TEXT, engine=engine)
    assert len(trace.layers) == layers
    for ours, by_hand in zip(trace.layers, weights, strict=True):
        np.testing.assert_allclose(ours["weights"][0], by_hand, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trace.layers[-1]["logits"][0], logits, rtol=1e-9, atol=1e-11)


def test_predictions_are_the_softmax_of_the_logits(tmp_path: Path) -> None:
    model = made("causal", layers=1, final_norm=False)
    logits, _ = logits_by_hand(model, IDS)
    trace = run_model(model.save(tmp_path / "toy.safetensors"), TEXT)
    for query, prediction in enumerate(trace.predictions):
        share = np.exp(logits[query]) / np.exp(logits[query]).sum()
        order = np.argsort(-share)
        assert [one.token for one in prediction.next] == [WORDS[i] for i in order]
        came = [one.probability for one in prediction.next]
        np.testing.assert_allclose(came, share[order], rtol=1e-9)
        np.testing.assert_allclose(prediction.entropy, -(share * np.log(share)).sum(), rtol=1e-9)


def test_a_right_looking_model_that_is_another_is_told_apart(tmp_path: Path) -> None:
    model = made("norm before", layers=1, final_norm=False)
    logits, _ = logits_by_hand(model.configured(norm="post"), IDS)
    trace = run_model(model.save(tmp_path / "toy.safetensors"), TEXT)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(trace.layers[-1]["logits"][0], logits, rtol=1e-3)


@pytest.mark.parametrize("dtype, atol", [("float32", 1e-4), ("bfloat16", 0.5)])
def test_narrower_precisions_stay_near(dtype: str, atol: float, tmp_path: Path) -> None:
    model = made("norm before", layers=2, final_norm=True)
    logits, _ = logits_by_hand(model, IDS)
    path = model.save(tmp_path / "toy.safetensors")
    trace = run_model(path, TEXT, engine="torch", dtype=dtype)
    np.testing.assert_allclose(trace.layers[-1]["logits"][0], logits, atol=atol)
    assert trace.layers[-1].stages["logits"].dtype == dtype
