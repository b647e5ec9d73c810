"""One run over all items, heads and blocks of queries, and the answer that it fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attn_cli.tiled.careful import CarefulBlock, CarefulHead
from attn_cli.tiled.crew import Crew
from attn_cli.tiled.fast import FastBlock, FastHead, is_fast
from attn_cli.tiled.plan import tiles
from attn_cli.tiled.products import products
from attn_cli.tiled.question import Question
from attn_cli.tiled.rows import NAN, TiledRows, close, empty_rows
from attn_cli.tiled.scratch import Scratch

Progress = Callable[[int, int], None]  # rows of all heads: done, total
Head = FastHead | CarefulHead
Block = FastBlock | CarefulBlock


@dataclass(frozen=True, slots=True, eq=False)
class Tiled:
    """What the tiles leave; tensors on the device of q.

    `context` (B, H, L, d_v) in the precision of q; `rows` one number a row; `top_keys` (B, H, L, K)
    int64 and `top_weights`, best first, −1 and NaN where a row sees fewer; `received` (B, H, S)
    float64, the weight that each key gets from all rows together, NaN rows included. What was not
    asked for is None.
    """

    context: Tensor
    rows: TiledRows
    top_keys: Tensor | None
    top_weights: Tensor | None
    received: Tensor | None


class Run:
    """A question, the crew that works on it, and its answer."""

    def __init__(self, question: Question, crew: Crew, height: int, width: int) -> None:
        self.question, self.crew, self.height, self.width = question, crew, height, width
        self.made = _unfilled(question)
        self.scratch: dict[int, Scratch] = {}  # of each worker
        self.done = [0] * crew.size  # rows, by worker

    def run(self, progress: Progress | None) -> Tiled:
        """Fills the answer; `progress` is told by the caller's thread."""
        batch, heads, queries, keys = self.question.shape
        total = batch * heads * queries

        def tell() -> None:
            if progress is not None:
                progress(sum(self.done), total)

        for b in range(batch):
            for several in self._several():
                self._heads(b, several, keys, tell)
        tell()
        return self.made

    def _several(self) -> list[range]:
        """The key/value heads in work at a time: one a worker."""
        count, size = self.question.k.shape[1], self.crew.size
        return [range(first, min(first + size, count)) for first in range(0, count, size)]

    def _heads(self, b: int, several: range, keys: int, tell: Callable[[], None]) -> None:
        heads: dict[int, Head] = {}

        def make(kv_head: int, worker: int) -> None:
            heads[kv_head] = self._head(b, kv_head)

        self.crew.run([partial(make, kv_head) for kv_head in several], lambda: None)
        received = {kv_head: self._receivers(keys) for kv_head in several}
        self.crew.run(
            [
                partial(self._task, heads[kv_head], b, h, rows, received[kv_head])
                for kv_head in several
                for h in self._reading(kv_head)
                for rows in self._blocks()
            ],
            tell,
        )
        for kv_head, sums in received.items():
            if sums is not None and self.made.received is not None:
                self.made.received[b, self._reading(kv_head)] = sums.sum(0)

    def _head(self, b: int, kv_head: int) -> Head:
        asked = self.question
        if is_fast(asked, b, kv_head):
            return FastHead(asked, b, kv_head, self.width)
        made = products(asked.q, asked.v[b, kv_head], asked.wide, self.width)
        return CarefulHead(asked, b, kv_head, made)

    def _reading(self, kv_head: int) -> list[int]:
        """The query heads that read a key/value head."""
        group = self.question.group
        return list(range(kv_head * group, (kv_head + 1) * group))

    def _blocks(self) -> list[range]:
        queries = self.question.shape[2]
        starts = range(0, queries, self.height)
        return [range(start, min(start + self.height, queries)) for start in starts]

    def _receivers(self, keys: int) -> Tensor | None:
        """Zeros for what the keys receive: one array for each worker, none waits for another."""
        asked = self.question
        if not asked.received:
            return None
        shape = (self.crew.size, asked.group, keys)
        return torch.zeros(shape, dtype=torch.float64, device=asked.device)

    def _task(
        self, head: Head, b: int, h: int, rows: range, received: Tensor | None, worker: int
    ) -> None:
        """One block of queries from its first tile to its finished rows."""
        block = self._begin(head, b, h, rows, worker)
        for tile, seen in self._tiles(b, h, rows):
            block.add(tile, seen)
        sinks, gathered = self.question.sinks, block.gathered()
        sink = None if sinks is None else sinks[h].to(gathered.total.dtype)
        closed, factor = close(gathered, sink)
        some = slice(rows.start, rows.stop)
        self._keep_rows(closed, b, h, some)
        self.made.context[b, h, some] = gathered.context.mul_(factor[:, None])
        if self.made.top_keys is not None and self.made.top_weights is not None:
            keys, powers = block.best_powers()
            self.made.top_keys[b, h, some] = keys
            self.made.top_weights[b, h, some] = torch.where(keys < 0, NAN, powers * factor[:, None])
        if received is not None:
            into = received[worker, h % self.question.group]
            for tile, seen in self._tiles(b, h, rows):
                into[tile.start : tile.stop] += block.weights(tile, seen, factor).sum(0)
        self.done[worker] += len(rows)

    def _begin(self, head: Head, b: int, h: int, rows: range, worker: int) -> Block:
        asked = self.question
        if isinstance(head, CarefulHead):
            return CarefulBlock(asked, head, b, h, rows)
        if worker not in self.scratch:
            size, widths = (self.height, self.width), (asked.q.shape[-1], asked.v.shape[-1])
            self.scratch[worker] = Scratch(size, *widths, asked.wide, asked.device)
        return FastBlock(asked, head, self.scratch[worker], b, h, rows)

    def _tiles(self, b: int, h: int, rows: range) -> Iterator[tuple[range, Tensor | None]]:
        """The tiles that are not empty, and which of their keys take part."""
        asked = self.question
        queries, keys = asked.positions(rows), asked.shape[3]
        for tile, full in tiles(asked.kind(b, h), queries, keys, self.width):
            seen = asked.seen(b, h, rows, tile, full=full)
            if seen is None or _any(seen):
                yield tile, seen

    def _keep_rows(self, closed: TiledRows, b: int, h: int, some: slice) -> None:
        into = self.made.rows
        for name in (*TiledRows.NUMBERS, "visible", "empty"):
            getattr(into, name)[b, h, some] = getattr(closed, name)
        for name, value in closed.expected.items():
            into.expected[name][b, h, some] = value


def _any(seen: Tensor) -> bool:
    """Whether a key takes part; numpy stops at the first one, PyTorch counts on."""
    return bool(seen.numpy().any() if seen.device.type == "cpu" else seen.any())


def _unfilled(question: Question) -> Tiled:
    """The answer without its numbers."""
    batch, heads, queries, keys = question.shape
    device, wide = question.device, question.wide

    def best(dtype: torch.dtype) -> Tensor | None:
        shape = (batch, heads, queries, question.top)
        return torch.empty(shape, dtype=dtype, device=device) if question.top else None

    received = torch.empty(batch, heads, keys, dtype=torch.float64, device=device)
    return Tiled(
        context=question.q.new_empty(batch, heads, queries, question.v.shape[-1]),
        rows=empty_rows((batch, heads, queries), tuple(question.terms), wide, device),
        top_keys=best(torch.int64),
        top_weights=best(wide),
        received=received if question.received else None,
    )
