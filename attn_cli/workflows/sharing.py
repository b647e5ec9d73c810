"""Sharing: one run's heads and queries dealt to several processes, and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.around import Around
from attn_cli.core.engine import Ask, Engine
from attn_cli.core.findings import Finding
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.provenance import provenance
from attn_cli.core.ranks import Ranks
from attn_cli.core.recorder import Recorder
from attn_cli.core.slicing import one_item, some_rows
from attn_cli.core.trace import TopKeys, Trace

Array = NDArray[Any]

ROWS = 512  # the cuts between queries lie at multiples of so many, where there are enough
EACH = 4  # pieces of queries that a process gets of a head, so that all have as much to do


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive queries of one head of one item."""

    item: int
    head: int
    queries: range

    @property
    def at(self) -> tuple[int, int, slice]:
        """Where its rows lie in a (B, H, L) array."""
        return self.item, self.head, slice(self.queries.start, self.queries.stop)


def deal(shape: tuple[int, int, int, int], size: int) -> list[list[Piece]]:
    """Every row in one piece, dealt to `size` processes forth and back, as later rows see more.

    Whole heads where they come out even, else each head's queries in pieces.
    """
    items, heads, length, _ = shape
    even = items * heads % size == 0
    cuts = 1 if even else min(EACH * size, max(1, length // ROWS))
    edges = [length * n // cuts for n in range(cuts + 1)]
    edges = [edge // ROWS * ROWS if 0 < edge < length else edge for edge in edges]
    pieces = [
        Piece(item, head, range(start, stop))
        for item in range(items)
        for head in range(heads)
        for start, stop in pairwise(edges)
        if stop > start
    ]
    order = [*range(size), *reversed(range(size))]
    hands: list[list[Piece]] = [[] for _ in range(size)]
    for place, piece in enumerate(pieces):
        hands[order[place % len(order)]].append(piece)
    return hands


def run_shared(engine: Engine, inputs: AttentionInputs, ask: Ask, ranks: Ranks) -> Trace:
    """The trace of a run whose rows several processes compute; in all but the first, PartDone.

    The first process makes what lies around attention, each what its own pieces need.
    """
    hands = deal(inputs.shape, ranks.place.size)
    ask = replace(ask, device=ranks.place.device(ask.device))
    recorder = Recorder(engine.name, inputs, ask, engine.can.stages)
    arounds = [Around(inputs, b, recorder, dense=False) for b in range(inputs.shape[0])]
    items = [_made(inputs, around) for around in arounds]
    mine = hands[ranks.place.rank]
    done = _Done(ask, ranks, int(np.prod(inputs.shape[:3])))
    traces = [done.run(engine, items[piece.item], piece) for piece in mine]
    parts = [dict(_arrays(trace)) for trace in traces]
    if ranks.place.rank:
        ranks.hand_over(parts)
    like = parts[0]
    others = ranks.collect(
        lambda rank: [_shapes(piece, like, inputs.shape) for piece in hands[rank]], like
    )
    gathered = _Gathered(inputs.shape, like)
    for pieces, some in zip(hands, [parts, *others], strict=True):
        for piece, part in zip(pieces, some, strict=True):
            gathered.take(piece, part)
    for around, context in zip(arounds, gathered.arrays["context"], strict=True):
        around.after(context)
    said = {finding: None for trace in traces for finding in trace.findings}
    return gathered.trace(recorder, ask, tuple(said))


def _made(inputs: AttentionInputs, around: Around) -> AttentionInputs:
    """One item from the q, k and v on that enter the product."""
    q, k, v = around.before()
    item = one_item(inputs, around.batch)
    return replace(item, q=q[None], k=k[None], v=v[None], x=None, origin=None, rotation=None)


@dataclass(slots=True)
class _Done:
    """Runs pieces and tells how many rows all processes have done."""

    ask: Ask
    ranks: Ranks
    total: int
    before: int = 0

    def run(self, engine: Engine, item: AttentionInputs, piece: Piece) -> Trace:
        part = some_rows(item, 0, range(piece.head, piece.head + 1), piece.queries)
        wanted = frozenset({"context"})
        trace = engine.run(part, replace(self.ask, keep=wanted, watch={}, progress=self._tell))
        self.before += len(piece.queries)
        self._tell(0, 0)
        return trace

    def _tell(self, done: int, _: int) -> None:
        rows = self.ranks.beat(self.before + done)
        if self.ask.progress is not None:
            self.ask.progress(min(rows, self.total), self.total)


def _arrays(trace: Trace) -> Iterator[tuple[str, Array]]:
    """Everything that a piece leaves, without batch and head, both of which are 1."""
    assert trace.lse is not None
    yield "context", trace["context"][0, 0]
    yield "lse", trace.lse[0, 0]
    yield "empty", trace.empty[0, 0]
    for name, values in trace.stats.items():
        yield f"stats/{name}", values[0, 0]
    if trace.top is not None:
        yield "top/keys", trace.top.keys[0, 0]
        yield "top/weights", trace.top.weights[0, 0]
    if trace.received is not None:
        yield "received", trace.received[0, 0]


def _shapes(
    piece: Piece, like: dict[str, Array], shape: tuple[int, int, int, int]
) -> dict[str, tuple[int, ...]]:
    """The shapes of a piece's arrays, which begin with its queries, or hold every key."""
    return {
        name: (shape[3],) if name == "received" else (len(piece.queries), *array.shape[1:])
        for name, array in like.items()
    }


class _Gathered:
    """The arrays of the whole run, filled piece by piece."""

    def __init__(self, shape: tuple[int, int, int, int], like: dict[str, Array]) -> None:
        items, heads, length, keys = shape
        self.arrays = {
            name: np.zeros((items, heads, keys), array.dtype)
            if name == "received"
            else np.empty((items, heads, length, *array.shape[1:]), array.dtype)
            for name, array in like.items()
        }

    def take(self, piece: Piece, part: dict[str, Array]) -> None:
        for name, array in part.items():
            if name == "received":
                self.arrays[name][piece.item, piece.head] += array
            else:
                self.arrays[name][piece.at] = array

    def trace(self, recorder: Recorder, ask: Ask, said: tuple[Finding, ...]) -> Trace:
        arrays, top = self.arrays, None
        if "top/keys" in arrays:
            top = TopKeys(arrays["top/keys"], arrays["top/weights"])
        stats = {
            name.removeprefix("stats/"): array
            for name, array in arrays.items()
            if name.startswith("stats/")
        }
        return Trace(
            engine=recorder.engine,
            stages=recorder.stages(),
            shapes=recorder.shapes,
            lse=arrays["lse"],
            empty=arrays["empty"].astype(bool),
            stats=stats,
            top=top,
            cosine=None,
            provenance=provenance(ask.dtype, ask.device),
            findings=said,
            received=arrays.get("received"),
        )
