"""Expectations by pieces of keys are Σ p·g by definition, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.statistics import Term
from attn_cli.models.hf.diagonals import Diagonal
from attn_cli.models.hf.expectations import Expectations
from attn_cli.stats.first_key_weight import First
from attn_cli.stats.mean_distance import Distance


def _square(q_pos: Any, k_pos: Any) -> Any:
    """A term that says of no tile that it is linear there."""
    return (q_pos - k_pos) * (q_pos - k_pos)


TERMS: dict[str, Term] = {
    "first": First(),
    "distance": Distance(),
    "previous": Diagonal(1),
    "own": Diagonal(0),
    "next": Diagonal(-1),
    "far back": Diagonal(5),
    "square": _square,
}


@pytest.mark.parametrize(
    "queries, keys",
    [
        (range(1), 1),
        (range(3), 3),
        (range(4, 9), 9),  # causal: no key behind
        (range(4, 9), 40),
        (range(9), 5),  # fewer keys than queries
        (range(30, 33), 20),  # all keys long before
        (range(1, 2), 2),
    ],
)
def test_sums_are_those_of_the_definition(queries: range, keys: int) -> None:
    p = torch.rand(2, 3, len(queries), keys, generator=torch.Generator().manual_seed(0)).double()
    expectations = Expectations(TERMS)
    q_pos, k_pos = np.asarray(queries)[:, None], np.arange(keys)
    for _ in range(2):  # made, and kept
        found = expectations.of(p, queries)
        assert found.keys() == {"total", *TERMS}
        np.testing.assert_allclose(found.pop("total"), p.numpy().sum(-1), rtol=1e-12)
        for name, value in found.items():
            right = (p.numpy() * TERMS[name](q_pos, k_pos)).sum(-1)
            np.testing.assert_allclose(value, right, rtol=1e-12, atol=1e-12, err_msg=name)


def test_far_positions_lose_nothing_in_float32() -> None:
    """A head that looks 3 back at position 100,000: Σ p·k alone would be off by 0.01 there."""
    keys, queries = 100_008, range(100_000, 100_008)
    p = torch.zeros(1, 1, 8, keys)
    for row, query in enumerate(queries):
        p[..., row, query - 3] = 0.7
        p[..., row, query - 4] = 0.3
    found = Expectations({"distance": Distance()}).of(p, queries)
    np.testing.assert_allclose(found["distance"], 3.3, rtol=1e-6)
