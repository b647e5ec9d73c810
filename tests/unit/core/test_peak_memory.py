"""The peak of a run is what it takes, freed or not, and not what was there before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.core import peak_memory
from attn_cli.core.peak_memory import can_measure, peak_bytes

MIB = 1 << 20
measured = pytest.mark.skipif(not can_measure(), reason="there is no mark that can be set back")


def touched(mib: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.ones(mib * MIB, np.uint8)


@measured
def test_what_is_freed_within_and_what_is_returned_count() -> None:
    def run() -> object:
        touched(64)
        return touched(16)

    before = touched(32)
    for _ in range(2):  # what the first run freed must not be missing in the second
        peak = peak_bytes(run)
        assert peak is not None
        assert 62 * MIB < peak < 90 * MIB
    assert before[0] == 1


@measured
def test_nothing_takes_next_to_nothing() -> None:
    peak = peak_bytes(lambda: None)
    assert peak is not None
    assert peak < 8 * MIB


def test_where_there_is_no_mark_it_is_not_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_memory, "_RESET", Path("/nonexistent/clear_refs"))
    ran: list[int] = []
    assert not can_measure()
    assert peak_bytes(lambda: ran.append(1)) is None
    assert ran == [1]
