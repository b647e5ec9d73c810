"""Sharing: every row is dealt once, and what is put together is the run of one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.ranks import PartDone, Place
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.stats import STATISTICS
from attn_cli.workflows import sharing
from attn_cli.workflows.sharing import deal, run_shared
from tests.agreement.samples import built, drawn

Array = NDArray[Any]
Parts = list[dict[str, Array]]


class Together:
    """Ranks in one process: the others run first and leave their parts here."""

    def __init__(self, rank: int, size: int, left: dict[int, Parts]) -> None:
        self.place, self.left = Place(rank, size, rank), left
        self.beats: list[int] = []

    def beat(self, done: int) -> int:
        self.beats.append(done)
        return done

    def hand_over(self, parts: Parts) -> None:
        self.left[self.place.rank] = parts
        raise PartDone

    def collect(
        self, shapes: Callable[[int], list[dict[str, tuple[int, ...]]]], like: dict[str, Array]
    ) -> list[Parts]:
        for rank, parts in self.left.items():
            assert shapes(rank) == [{n: a.shape for n, a in part.items()} for part in parts]
            dtypes = {name: array.dtype for name, array in like.items()}
            for part in parts:
                assert {name: array.dtype for name, array in part.items()} == dtypes
        return [self.left[rank] for rank in range(1, self.place.size)]


def together(inputs: AttentionInputs, ask: Ask, size: int) -> Trace:
    left: dict[int, Parts] = {}
    for rank in range(1, size):
        with pytest.raises(PartDone):
            run_shared(ENGINES["tiled"], inputs, ask, Together(rank, size, left))
    return run_shared(ENGINES["tiled"], inputs, ask, Together(0, size, left))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(1, 1, 5, 5), (2, 3, 9000, 1), (1, 4, 2048, 1), (1, 1, 700, 1)])
def test_every_row_is_dealt_once(shape: tuple[int, int, int, int], size: int) -> None:
    rows = np.zeros(shape[:3], int)
    hands = deal(shape, size)
    assert len(hands) == size
    for hand in hands:
        for piece in hand:
            rows[piece.at] += 1
    assert (rows == 1).all()
    assert hands[0]


def test_under_a_causal_mask_all_have_about_as_much_to_do() -> None:
    cost = [sum(sum(p.queries) for p in hand) for hand in deal((1, 1, 131_072, 131_072), 4)]
    assert max(cost) < 1.05 * min(cost)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("q_offset", [0, None])
def test_the_trace_is_that_of_one_process(
    q_offset: int | None, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "ROWS", 4)
    plain = drawn(3, batch=2, heads=2, kv_heads=1, queries=25, keys=25, q_offset=q_offset)
    inputs = replace(plain, mask=built("causal & ~window(1)", plain), sinks=np.array([0.5, -1]))
    told: list[tuple[int, int]] = []
    ask = Ask(
        keep=frozenset({"context", "output", "q"}),
        stats=[STATISTICS[name] for name in STATISTICS],
        top=3,
        received=True,
        progress=lambda *now: told.append(now),
    )
    found = together(inputs, ask, size)
    assert {total for _, total in told} == {100}
    one, dense = (ENGINES[name].run(inputs, ask) for name in ("tiled", "numpy"))
    for wanted, bound in ((one, 1e-13), (dense, 1e-11)):
        for name in wanted.stages:
            np.testing.assert_allclose(found[name], wanted[name], atol=bound, err_msg=name)
        for name, values in wanted.stats.items():
            np.testing.assert_allclose(found.stats[name], values, atol=bound, err_msg=name)
        for name in ("lse", "received"):
            mine, theirs = (np.asarray(getattr(run, name)) for run in (found, wanted))
            np.testing.assert_allclose(mine, theirs, atol=bound, err_msg=name)
        np.testing.assert_array_equal(found.empty, wanted.empty)
        assert found.top is not None
        assert wanted.top is not None
        np.testing.assert_array_equal(found.top.keys, wanted.top.keys)
    assert found.shapes == one.shapes


def test_below_float32_the_numbers_are_the_same_too() -> None:
    inputs = drawn(1, heads=3, queries=6, keys=6)
    ask = Ask(keep=frozenset({"context"}), stats=[STATISTICS["entropy"]], dtype="bfloat16")
    found, one = together(inputs, ask, 2), ENGINES["tiled"].run(inputs, ask)
    np.testing.assert_array_equal(found["context"], one["context"])
    np.testing.assert_array_equal(found.stats["entropy"], one.stats["entropy"])
    assert found.stats["entropy"].dtype == one.stats["entropy"].dtype
