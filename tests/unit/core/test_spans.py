"""Indices in words."""

from __future__ import annotations

import pytest

from attn_cli.core.spans import spans


@pytest.mark.parametrize(
    "indices, words",
    [
        ([], ""),
        ([7], "7"),
        ([0, 1], "0–1"),
        ([0, 2, 3, 4, 9], "0, 2–4, 9"),
        (range(100_000), "0–99999"),
        ([0, 2, 4, 6, 8, 10, 12, 13, 15], "0, 2, 4, 6, 8, 10 and 3 more"),
    ],
)
def test_spans(indices: list[int], words: str) -> None:
    assert spans(indices) == words
