"""How alike heads look, against cosines by hand and every order of the weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from attn_cli.models.hf import head_likeness
from attn_cli.models.hf.blocks import rows_of
from attn_cli.models.hf.capture import capture
from attn_cli.models.hf.head_likeness import HeadLikeness
from tests.unit.models.hf.sharp import Array, eager, orders, real_of, sharp, two_texts


def cosine(a: Array, b: Array) -> Array:
    return np.asarray((a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1))


@pytest.mark.parametrize("name, causal", [("bert", False), ("llama", True)])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_cosine_and_chance(
    name: str, causal: bool, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_likeness, "rows_of", partial(rows_of, at_once=at_once))
    loaded = sharp(tmp_path, name)
    inputs = two_texts(loaded)
    seen = HeadLikeness(real_of(inputs))
    capture(loaded, inputs, [seen], verify=False)
    for sums, weights in zip(seen.sums.values(), eager(loaded, inputs), strict=True):
        for item, length in enumerate(inputs.lengths):
            rows = [(q, q + 1 if causal else length) for q in range(length)]
            chosen = [(q, n) for q, n in rows if n > 1]
            a, b = weights[item, 0], weights[item, 1]
            right = sum(cosine(a[q, :n], b[q, :n]) for q, n in chosen)
            dealt = sum(cosine(a[q, :n], orders(b[q, :n])).mean() for q, n in chosen)
            np.testing.assert_allclose(sums.cosine[item, 0, 1], right, rtol=1e-5)
            np.testing.assert_allclose(sums.chance[item, 0, 1], dealt, rtol=1e-5)
            assert (sums.rows[item] == len(chosen)).all()
        np.testing.assert_allclose(sums.cosine, sums.cosine.transpose(0, 2, 1), rtol=1e-6)
        diagonal = np.diagonal(sums.cosine / sums.rows, axis1=1, axis2=2)
        np.testing.assert_allclose(diagonal, 1, rtol=1e-5)
