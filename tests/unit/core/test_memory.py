"""Memory: what a dense run takes, and the refusal of one that does not fit."""

from __future__ import annotations

import tracemalloc

import pytest

from attn_cli.core.engine import Ask
from attn_cli.core.memory import WORKING_COPIES, available_bytes, require_dense, size
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.stats import STATISTICS
from tests.agreement.samples import drawn


def test_what_fits_passes_and_what_is_one_byte_too_large_does_not() -> None:
    need = 2 * 10 * 20 * 8 * (WORKING_COPIES + 3 * 4)
    require_dense((3, 2, 10, 20), kept=4, itemsize=8, available=need)
    with pytest.raises(InputError):
        require_dense((3, 2, 10, 20), kept=4, itemsize=8, available=need - 1)


def test_where_nobody_knows_what_is_free_nothing_is_refused() -> None:
    require_dense((1, 64, 10**6, 10**6), kept=0, itemsize=8, available=None)


def test_the_refusal_says_what_it_would_take() -> None:
    with pytest.raises(InputError) as refusal:
        require_dense((1, 8, 100_000, 100_000), kept=0, itemsize=8, available=2**34)
    assert refusal.value.message == (
        "8 × 100,000 × 100,000 scores need about 3.5 TiB of memory, and 16.0 GiB are free"
    )
    assert "fewer tokens or heads" in refusal.value.hint
    assert "keep fewer stages" not in refusal.value.hint
    with pytest.raises(InputError, match="keep fewer stages"):
        require_dense((1, 8, 100_000, 100_000), kept=2, itemsize=8, available=2**34)


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


def test_a_run_takes_no_more_than_it_said() -> None:
    """The peak of the numpy engine, every statistic included, in units of one (H, L, S)."""
    inputs = drawn(1, heads=2, queries=256, keys=256, d_k=4, d_v=4, softcap=5.0, sinks=None)
    ask = Ask(stats=[STATISTICS[name] for name in STATISTICS], top=5, cosine=True)
    ENGINES["numpy"].run(drawn(1), ask)
    tracemalloc.start()
    try:
        ENGINES["numpy"].run(inputs, ask)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / (2 * 256 * 256 * 8) <= WORKING_COPIES
