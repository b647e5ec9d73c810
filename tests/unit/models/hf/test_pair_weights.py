"""Weight between marked tokens, against the matrices that transformers returns."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attn_cli.models.hf import pair_weights
from attn_cli.models.hf.blocks import rows_of
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.pair_weights import PairWeights
from tests.unit.models.hf.sharp import eager, sharp, two_texts

QUERIES = np.array([[0, 1, 0, 1], [1, 0, 1, 0]], bool)
KEYS = np.array([[1, 0, 1, 0], [0, 1, 0, 0]], bool)


@pytest.mark.parametrize("name", ["bert", "llama", "bloom"])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_sums_are_those_of_the_matrices(
    name: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_weights, "rows_of", partial(rows_of, at_once=at_once))
    loaded = sharp(tmp_path, name)
    inputs = two_texts(loaded)
    seen = PairWeights(lambda facts: (QUERIES, KEYS))
    capture(loaded, inputs, [seen], verify=False)
    causal = np.tri(4, dtype=bool) if name != "bert" else np.ones((4, 4), bool)
    visible = causal & (np.asarray(inputs.tensors["attention_mask"]) != 0)[:, None]  # (B, L, S)
    chance = (visible & KEYS[:, None]).sum(-1) / visible.sum(-1)
    for sums, weights in zip(seen.sums.values(), eager(loaded, inputs), strict=True):
        onto = weights * KEYS[:, None, None]
        rows = QUERIES[:, None]
        np.testing.assert_allclose(sums.weight, (onto.sum(-1) * rows).sum(-1), rtol=1e-4)
        np.testing.assert_allclose(sums.largest, (onto.max(-1) * rows).sum(-1), rtol=1e-4)
        right = np.broadcast_to((chance * QUERIES).sum(-1)[:, None], sums.chance.shape)
        np.testing.assert_allclose(sums.chance, right, rtol=1e-6)
        assert sums.queries.tolist() == [2, 2]


def test_an_item_without_a_key_does_not_count(tmp_path: Path) -> None:
    loaded = sharp(tmp_path, "bert")
    keys = KEYS & np.array([[True], [False]])
    seen = PairWeights(lambda facts: (QUERIES, keys) if facts.layer == 0 else None)
    capture(loaded, two_texts(loaded), [seen], verify=False)
    (sums,) = seen.sums.values()
    assert sums.queries.tolist() == [2, 0]
    assert (sums.weight[1] == 0).all()
    assert (sums.weight[0] > 0).all()
