"""Memory: what a dense run takes, and the refusal of one that does not fit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from attn_cli.core.memory import COSINES, available_bytes, require_dense, size
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from tests.agreement.samples import drawn
from tests.unit.checks.checking import findings


def test_what_fits_passes_and_what_is_one_byte_too_large_does_not() -> None:
    need = 2 * 10 * 20 * 8 * (5 + 3 * 4) + 2 * 2 * 8 * (COSINES + 3)
    require_dense((3, 2, 10, 20), copies=5, kept=4, itemsize=8, available=need)
    with pytest.raises(InputError):
        require_dense((3, 2, 10, 20), copies=5, kept=4, itemsize=8, available=need - 1)


def test_where_nobody_knows_what_is_free_nothing_is_refused() -> None:
    require_dense((1, 64, 10**6, 10**6), copies=5, kept=0, itemsize=8, available=None)


def test_the_refusal_says_what_it_would_take() -> None:
    with pytest.raises(InputError) as refusal:
        require_dense((1, 8, 100_000, 100_000), copies=5, kept=0, itemsize=8, available=2**34)
    assert refusal.value.message == (
        "8 × 100,000 × 100,000 scores need about 2.9 TiB of memory, and 16.0 GiB are free"
    )
    assert "fewer tokens or heads" in refusal.value.hint
    assert "keep fewer stages" not in refusal.value.hint
    with pytest.raises(InputError, match="keep fewer stages"):
        require_dense((1, 8, 100_000, 100_000), copies=5, kept=2, itemsize=8, available=2**34)


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (2**20, "1.0 MiB"),
     (5 * 2**30, "5.0 GiB"), (2**40, "1.0 TiB"), (2**60, "1,024.0 PiB")],
)  # fmt: skip
def test_sizes_in_words(count: int, text: str) -> None:
    assert size(count) == text


def test_this_machine_has_some_memory() -> None:
    free = available_bytes()
    assert free is None or free > 2**20


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_run_takes_no_more_than_it_said(dtype: str) -> None:
    """The peak of the numpy engine with every option, statistic and check, in (H, L, S)."""
    hidden = np.where(np.arange(256) < 250, 0, -np.inf)
    added: dict[str, Any] = {
        "bias": np.zeros((1, 256)),
        "additive": hidden[np.newaxis],
        "sinks": np.zeros(2),
    }
    inputs = drawn(1, queries=256, keys=256, d_k=4, d_v=4, softcap=5.0, **added)
    findings(drawn(1), dtype=dtype)  # what is imported or cached once does not count
    tracemalloc.start()
    try:
        findings(inputs, dtype=dtype)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    copies = peak / (2 * 256 * 256 * (8 if dtype == "float64" else 4))
    assert 3 < copies <= ENGINES["numpy"].can.copies


def test_many_heads_are_refused_for_what_comparing_them_takes() -> None:
    with pytest.raises(InputError, match=r"200,000 × 2 × 2 scores need about 2\.6 TiB"):
        require_dense((1, 200_000, 2, 2), copies=9, kept=0, itemsize=8, available=2**34)
