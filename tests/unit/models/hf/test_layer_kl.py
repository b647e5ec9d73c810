"""KL from layer to layer, against rows that numpy averages and every order of the weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_cli.models.hf import layer_kl
from attn_cli.models.hf.blocks import rows_of
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.inputs import inputs_of_ids
from attn_cli.models.hf.layer_kl import LEAST, LayerKl, _kl
from tests.unit.models.hf.making import drawn, made
from tests.unit.models.hf.sharp import Array, eager, orders, real_of, sharp, two_texts


def kl(p: Array, q: Array) -> Array:
    return np.asarray((p * np.log(p / q)).sum(-1))


@pytest.mark.parametrize("name, causal", [("bert", False), ("llama", True), ("bloom", True)])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_kl_and_chance(
    name: str, causal: bool, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_kl, "rows_of", partial(rows_of, at_once=at_once))
    loaded = sharp(tmp_path, name)
    inputs = two_texts(loaded)
    seen = LayerKl(real_of(inputs))
    calls = capture(loaded, inputs, [seen], verify=False).coverage.calls
    assert calls[0].place not in seen.sums
    layers = eager(loaded, inputs)
    for number, facts in enumerate(calls[1:], 1):
        sums = seen.sums[facts.place]
        assert sums.before == calls[number - 1].place
        p, q = layers[number].mean(1), layers[number - 1].mean(1)
        for item, length in enumerate(inputs.lengths):
            rows = [(i, i + 1 if causal else length) for i in range(length)]
            chosen = [(i, n) for i, n in rows if n > 1]
            right = sum(kl(p[item, i, :n], q[item, i, :n]) for i, n in chosen)
            dealt = sum(kl(p[item, i, :n], orders(q[item, i, :n])).mean() for i, n in chosen)
            np.testing.assert_allclose(sums.kl[item], right, rtol=1e-3, atol=1e-6)
            np.testing.assert_allclose(sums.chance[item], dealt, rtol=1e-3, atol=1e-6)
            assert sums.rows[item] == len(chosen)


def test_layers_with_other_masks_are_not_compared(tmp_path: Path) -> None:
    """Layers of gemma2 take turns: windows of 8, and all keys before."""
    loaded = made(tmp_path, "gemma2")
    alike, other = LayerKl(lambda facts: np.ones((1, 8), bool)), LayerKl(real_of(drawn(loaded)))
    capture(loaded, inputs_of_ids(loaded, [list(range(8))]), [alike], verify=False)
    capture(loaded, drawn(loaded), [other], verify=False)
    assert len(alike.sums) == 1  # 8 tokens fit the window
    assert len(other.sums) == 0


def test_the_values_of_a_call_are_not_held(tmp_path: Path) -> None:
    loaded = made(tmp_path, "llama")
    seen = LayerKl(lambda facts: np.ones((1, facts.queries), bool))
    capture(loaded, drawn(loaded), [seen], verify=False)
    (before,) = seen._before.values()
    assert before.q is not None
    assert (before.v, before.context, before.module) == (None, None, None)


def test_towers_are_apart(tmp_path: Path) -> None:
    loaded = made(tmp_path, "t5")
    inputs = drawn(loaded)
    seen = LayerKl(lambda facts: np.ones((1, facts.queries), bool))
    calls = capture(loaded, inputs, [seen], verify=False).coverage.calls
    firsts = {(call.stack, call.cross): call.place for call in reversed(calls)}
    assert {call.place for call in calls} - seen.sums.keys() == set(firsts.values())


def test_zeros() -> None:
    """A 0 of p adds nothing, one of q counts as the smallest normal number, hidden keys as none."""
    p, q = torch.tensor([[[0.5, 0.5, 0, 0]]]), torch.tensor([[[1.0, 0, 0, 0]]])
    visible = torch.tensor([[[True, True, True, False]]])
    here, chance, rows = _kl(p, q, visible, torch.tensor([[True]]))
    least = np.log(LEAST)
    np.testing.assert_allclose(here, [np.log(0.5) - 0.5 * least], rtol=1e-6)
    np.testing.assert_allclose(chance, [np.log(0.5) - 2 / 3 * least], rtol=1e-6)
    assert rows.tolist() == [1]
