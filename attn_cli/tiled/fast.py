"""A block of queries, tile by tile, as few passes as it takes: plain scores in float32 or float64.

Scores are in base 2 (2^x costs less than eˣ), and the product itself subtracts each row's reference
r: q has a last column −r, k one of ones. r need not be the maximum: it follows it when that has
grown by SLACK, so that most tiles rescale nothing, and 2^SLACK is far from overflow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_cli.core.statistics import LinearTerm, Term
from attn_cli.tiled.best import Best
from attn_cli.tiled.question import Question
from attn_cli.tiled.rows import INF, Gathered
from attn_cli.tiled.scratch import DEPTH, Scratch

SLACK = 10.0  # how far above its reference a row's maximum may be, in powers of 2
LOW = -1e30  # stands for −∞: 2^LOW is 0, and 0·LOW is 0
LARGEST = 1e28  # of a score in size: far from LOW, and from overflow
DTYPES = (torch.float32, torch.float64)
EXACT = 2**24  # whole numbers up to it are exact in float32
LOG2E = math.log2(math.e)

Line = tuple[int, int, int]  # constant + by_query · row + by_key · key, both counted in the tile
NOTHING = (0, 0, 0)


def is_fast(question: Question, b: int, kv_head: int) -> bool:
    """Whether q, k and v of these heads are finite and their scores far from overflow."""
    if not question.plain or question.q.dtype not in DTYPES:
        return False
    first = kv_head * question.group
    queries = question.q[b, first : first + question.group]
    keys, values = question.k[b, kv_head], question.v[b, kv_head]
    reach = queries.norm(dim=-1).max() * keys.norm(dim=-1).max() * abs(question.scale) * LOG2E
    return bool(reach < LARGEST) and bool(values.isfinite().all())  # NaN is not <


class FastHead:
    """What the query heads of one key/value head share: v, and kᵀ with a row of ones.

    kᵀ lies in pieces (d_k + 1, width): a product reads a piece faster than columns of the whole,
    whose rows are all on pages of their own.
    """

    def __init__(self, question: Question, b: int, kv_head: int, width: int) -> None:
        self.width = width
        k = question.k[b, kv_head]
        pieces = [k[first : first + width] for first in range(0, len(k), width)]
        self._k = [torch.cat([piece.mT, piece.new_ones(1, len(piece))]) for piece in pieces]
        self.v = question.v[b, kv_head].contiguous()
        terms = question.terms.items()
        self.lines = {name: g if isinstance(g, LinearTerm) else None for name, g in terms}

    def k(self, keys: range) -> Tensor:
        """kᵀ of a tile, which lies in one piece."""
        piece, first = self._k[keys.start // self.width], keys.start % self.width
        return piece if len(keys) == self.width else piece[:, first : first + len(keys)]


class FastBlock:
    """The running sums of one block of queries, relative to `reference` (rows,), in base 2."""

    def __init__(
        self, question: Question, head: FastHead, scratch: Scratch, b: int, h: int, rows: range
    ) -> None:
        self.question, self.head, self.scratch, self.where = question, head, scratch, (b, h, rows)
        q = question.q[b, h, rows.start : rows.stop]
        count, d_k = q.shape
        self.q = scratch.q[:count]
        self.q[:, d_k] = 0
        torch.mul(q, question.scale * LOG2E, out=self.q[:, :d_k])
        zeros = q.new_zeros(3 + len(question.terms), count)
        self.reference, self.total, self.shifted, *expected = zeros.unbind()
        self.expected = dict(zip(question.terms, expected, strict=True))
        self.high = q.new_full((count,), LOW)  # the maximum so far, relative to the reference
        self.context = scratch.context[:count].zero_()
        self.visible = torch.zeros(count, dtype=torch.int64, device=q.device)
        self.in_full = 0  # keys of full tiles, visible to every row
        self.all_seen = self.settled = False  # every row has seen a key, and has a reference
        self.begun = False  # a tile has been added
        self.waiting = scratch.waiting(count)
        self.count = 0  # of tiles whose sums wait
        self.lines: dict[str, list[Line]] = {name: [] for name in question.terms}
        self.best = Best(count, question.top, q.dtype, q.device) if question.top else None

    def _scores(self, keys: range, seen: Tensor | None) -> Tensor:
        """The scores of a tile relative to the reference, LOW where hidden."""
        x, hidden = self.scratch.tiles(len(self.where[2]), len(keys))
        torch.mm(self.q, self.head.k(keys), out=x)
        if seen is None:
            return x
        # x is finite, so adding does what filling does.
        return x.add_(torch.logical_not(seen, out=hidden), alpha=LOW)

    def add(self, keys: range, seen: Tensor | None) -> None:
        """One tile: p = 2^(score − r), what it leaves of every row, and Σ p·v."""
        x, p = self._scores(keys, seen), self.scratch.tiles(len(self.where[2]), len(keys))[1]
        self._count(keys, None if seen is None else p)
        top = torch.amax(x, -1, out=self.waiting.top_of[self.count])
        if not self.settled or _greatest(top) > SLACK:
            self._raise(x, top)
        if self.best is not None:
            self.best.add(x + self.reference[:, None], seen, keys)
        torch.exp2(x, out=p)
        torch.sum(p, -1, out=self.waiting.total_of[self.count])
        self.context.addmm_(p, self.head.v[keys.start : keys.stop])
        torch.sum(x.mul_(p), -1, out=self.waiting.shifted_of[self.count])
        if self.expected:
            self._expect(p, keys)
        self.count += 1
        if self.count == DEPTH:
            self._add_up()

    def _count(self, keys: range, hidden: Tensor | None) -> None:
        """The visible keys; `hidden` has ones where there are none."""
        if hidden is None:
            self.in_full += len(keys)
            self.all_seen = True
        else:
            self.visible += len(keys) - hidden.sum(-1).long()
            self.all_seen = self.all_seen or bool(self.visible.all())

    def _raise(self, x: Tensor, top: Tensor) -> None:
        """The reference to the maximum where a row's first key comes, or one too high for it."""
        self._add_up()
        self.settled = self.all_seen
        high = torch.maximum(self.high, top)
        delta = torch.where(high > LOW / 2, high, 0)
        x -= delta[:, None]
        if self.begun:
            self._rescale(delta)
        self.begun = True
        self.reference += delta
        self.q[:, -1] = -self.reference
        self.high = high - delta
        self.waiting.top_of[0].copy_(self.high)

    def _rescale(self, delta: Tensor) -> None:
        """What has been gathered to a reference that is higher by δ."""
        self.shifted -= delta * self.total
        factor = (-delta.clamp(min=0)).exp2()  # of a row's first key nothing is there to rescale
        for sums in (self.shifted, self.total, *self.expected.values()):
            sums *= factor
        self.context *= factor[:, None]

    def _add_up(self) -> None:
        """Adds what the last tiles have left; none waits after it."""
        count, waiting = self.count, self.waiting
        if not count:
            return
        total = waiting.total[:count]
        torch.maximum(self.high, waiting.top[:count].amax(0), out=self.high)
        self.total += total.sum(0)
        self.shifted += waiting.shifted[:count].sum(0)
        rows = self.scratch.steps[: len(self.total)]
        for name, lines in self.lines.items():
            constant, by_query, by_key = self.total.new_tensor(lines).unbind(-1)
            into = self.expected[name]
            into.addmv_(total.mT, constant)
            into.addcmul_(torch.mv(total.mT, by_query), rows)
            into.addmv_(waiting.far[:count].mT, by_key)
            lines.clear()
        self.count = 0

    def _expect(self, p: Tensor, keys: range) -> None:
        """Σ p·g; where g is linear in the tile, from Σ p and Σ p·(k − first key) alone."""
        queries, far = self.question.positions(self.where[2]), False
        for name, g in self.question.terms.items():
            lines = self.head.lines[name]
            line = None if lines is None else lines.linear(queries, keys)
            if line is None:
                self.lines[name].append(NOTHING)
                self.expected[name] += self._crossed(g, lines, p, keys)
                continue
            constant, by_query, by_key = line
            constant += by_query * queries.start + by_key * keys.start
            self.lines[name].append((constant, by_query, by_key))
            far = far or by_key != 0
        if far:
            steps = self.scratch.steps[: len(keys)]
            torch.mv(p, steps, out=self.waiting.far_of[self.count])

    def _crossed(self, g: Term, lines: LinearTerm | None, p: Tensor, keys: range) -> Tensor:
        """Σ p·g in a tile where g is not linear; in place of its scores, which are done with."""
        queries = self.question.positions(self.where[2])
        if lines is not None and lines.by_distance and abs(keys.start - queries.start) < EXACT:
            values = self.scratch.by_distance(g, queries, keys)
            return torch.mul(p, values, out=self.scratch.tiles(*p.shape)[0]).sum(-1)
        others: Tensor = g(self._places(queries)[:, None], self._places(keys))
        return (p * others).sum(-1)

    def _places(self, positions: range) -> Tensor:
        """Positions as numbers that multiply weights at once, as long as they are exact."""
        exact = max(abs(positions.start), positions.stop) <= EXACT
        dtype = self.total.dtype if exact else torch.int64
        return torch.arange(positions.start, positions.stop, dtype=dtype, device=self.total.device)

    def _beneath(self) -> Tensor:
        """How far each maximum lies above its reference; 0 in a row that sees nothing."""
        return self.high if self.all_seen else torch.where(self.visible > 0, self.high, 0)

    def gathered(self) -> Gathered:
        """What all tiles have left, relative to each row's maximum and in base e: the end."""
        self._add_up()
        self.visible += self.in_full
        above, seen = self._beneath(), self.visible > 0
        factor = above.neg().exp2_()
        total = self.total * factor
        maximum = (self.reference + above).div_(LOG2E)
        return Gathered(
            maximum=maximum if self.all_seen else torch.where(seen, maximum, -INF),
            total=total,
            weight_sum=total,
            shifted=(self.shifted - above * self.total).mul_(factor).div_(LOG2E),
            expected={name: value * factor for name, value in self.expected.items()},
            visible=self.visible,
            seen=seen,
            context=self.context.mul_(factor[:, None]),
            ordinary=self.all_seen,
        )

    def best_powers(self) -> tuple[Tensor, Tensor]:
        """The best keys (rows, count) and their exp(score − m)."""
        assert self.best is not None
        keys, scores = self.best.found()
        return keys, (scores - (self.reference + self._beneath())[:, None]).exp2()

    def weights(self, keys: range, seen: Tensor | None, factor: Tensor) -> Tensor:
        """The weights of a tile, computed again; `factor` as `close` gives it."""
        self.q[:, -1] = -(self.reference + self._beneath())
        w = self._scores(keys, seen).exp2_().mul_(factor[:, None])
        return w if seen is None else w.masked_fill_(~seen, 0)  # also in a row that is NaN


def _greatest(numbers: Tensor) -> float:
    """The greatest number; numpy is quicker to call."""
    return float(numbers.numpy().max() if numbers.device.type == "cpu" else numbers.max())
