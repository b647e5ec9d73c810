"""A block of queries, tile by tile, by the formula as it stands: every kind of input and precision.

The steps are those of core/softmax.py: each tile's maximum is exact, and what was gathered before
is rescaled to it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn_cli.tiled.best import Best
from attn_cli.tiled.products import Products
from attn_cli.tiled.question import Question
from attn_cli.tiled.rows import INF, Gathered


class CarefulHead:
    """What the query heads of one key/value head share: k (S, d_k) and v (S, d_v) for products."""

    def __init__(self, question: Question, b: int, kv_head: int, made: Products) -> None:
        v = question.v[b, kv_head]
        self.made = made
        self.k = made.factor(question.k[b, kv_head])
        self.finite = bool(v.isfinite().all())
        self.v = made.factor(v if self.finite else torch.where(v.isfinite(), v, 0))
        self.raw = v


class CarefulBlock:
    """The running sums of one block of queries (rows,) in float32 or wider."""

    def __init__(self, question: Question, head: CarefulHead, b: int, h: int, rows: range) -> None:
        self.question, self.head, self.where = question, head, (b, h, rows)
        dtype, wide = question.q.dtype, question.wide
        q = question.q[b, h, rows.start : rows.stop]
        self.early = question.scale if dtype == torch.float16 else None
        if self.early is not None:
            q = (q.to(wide) * self.early).to(dtype)
        self.q = head.made.factor(q)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(len(rows), *shape, dtype=wide, device=question.device)

        self.maximum = torch.full_like(zeros(), -INF)
        self.total, self.weight_sum, self.shifted = zeros(), zeros(), zeros()
        self.expected = {name: zeros() for name in question.terms}
        self.context = zeros(head.v.shape[-1])
        self.visible = torch.zeros(len(rows), dtype=torch.int64, device=question.device)
        self.seen = torch.zeros(len(rows), dtype=torch.bool, device=question.device)
        self.best = Best(len(rows), question.top, wide, question.device) if question.top else None

    def masked(self, keys: range, seen: Tensor | None) -> Tensor:
        """The scores of a tile (rows, keys), −inf where hidden."""
        asked, (b, h, rows) = self.question, self.where
        x = self.head.made.scores(self.q, self.head.k[keys.start : keys.stop])
        if self.early is None:
            x = x.mul_(asked.scale)
        if asked.softcap is not None:
            x = x.div_(asked.softcap).tanh_().mul_(asked.softcap)
        if asked.bias is not None:
            x = x.add_(self._rounded(asked.part(asked.bias, b, h, rows, keys)))
        if asked.position_bias is not None:
            x = x.add_(self._rounded(asked.position_biased(b, h, rows, keys)))
        if asked.additive is not None:
            x = x.add_(self._rounded(asked.part(asked.additive, b, h, rows, keys)))
        return x if seen is None else x.masked_fill_(~seen, -INF)

    def _rounded(self, added: Tensor) -> Tensor:
        """What is added, in the precision of the run."""
        return added.to(self.question.q.dtype).to(self.question.wide)

    def add(self, keys: range, seen: Tensor | None) -> None:
        """One tile: its p = exp(score − m), what it leaves of every row, and Σ p·v."""
        b, h, rows = self.where
        x = self.masked(keys, seen)
        if self.best is not None:
            self.best.add(x, seen, keys)
        maximum = torch.maximum(self.maximum, x.amax(-1))
        self._rescale(maximum)
        x.sub_(torch.where(maximum.isneginf(), 0, maximum)[:, None])
        p = x.exp()
        if seen is not None:
            p.masked_fill_(~seen, 0)  # also in a row that is NaN
        rounded = p.to(self.question.q.dtype)
        self.total += p.sum(-1)
        self.weight_sum += rounded.sum(-1, dtype=self.question.wide)
        self._expect(p, keys)
        self.shifted += torch.where(p == 0, 0, x.mul_(p)).sum(-1)  # 0·ln 0 = 0; NaN passes
        self.context += self._weigh(rounded, keys, seen)
        self.visible += self.question.counted(seen, b, h, rows, keys)
        self.seen |= True if seen is None else seen.any(-1)

    def _rescale(self, maximum: Tensor) -> None:
        """All sums to a new maximum; a maximum that grows by δ takes δ·Z from the shifted sum."""
        nothing = self.maximum.isneginf()  # sums are 0: any factor will do, but not NaN
        delta = torch.where(nothing, 0, maximum - torch.where(nothing, 0, self.maximum))
        factor = (-delta).exp()
        shifted = (self.shifted - delta * self.total) * factor
        self.shifted = torch.where(factor == 0, 0, shifted)  # δ·Z may be inf
        self.maximum = maximum
        self.total *= factor
        self.weight_sum *= factor
        self.context *= factor[:, None]
        for value in self.expected.values():
            value *= factor

    def _expect(self, p: Tensor, keys: range) -> None:
        _, _, rows = self.where
        if not self.expected:
            return
        queries = self.question.positions(rows)
        q_pos = torch.arange(queries.start, queries.stop, device=p.device)[:, None]
        k_pos = torch.arange(keys.start, keys.stop, device=p.device)
        for name, g in self.question.terms.items():
            self.expected[name] += (p * g(q_pos, k_pos)).sum(-1)

    def _weigh(self, p: Tensor, keys: range, seen: Tensor | None) -> Tensor:
        """p · v, without forming 0·NaN or 0·inf for hidden keys."""
        some = slice(keys.start, keys.stop)
        context = self.head.made.context(p, self.head.v[some])
        if self.head.finite:
            return context
        raw, wide = self.head.raw[some], self.question.wide
        used = (p > 0).to(wide)
        visible = torch.ones_like(used) if seen is None else seen.to(wide)
        plus, minus = used @ (raw == INF).to(wide), used @ (raw == -INF).to(wide)
        lost = visible @ raw.isnan().to(wide) + (visible - used) @ raw.isinf().to(wide)
        context = torch.where(plus > 0, INF, torch.where(minus > 0, -INF, context))
        nan_row = p.isnan().any(-1, keepdim=True)
        return context.masked_fill_((lost > 0) | ((plus > 0) & (minus > 0)) | nan_row, float("nan"))

    def gathered(self) -> Gathered:
        """What all tiles have left."""
        return Gathered(
            self.maximum, self.total, self.weight_sum, self.shifted, self.expected, self.visible,
            self.seen, self.context,
        )  # fmt: skip

    def best_powers(self) -> tuple[Tensor, Tensor]:
        """The best keys (rows, count) and their exp(score − m)."""
        assert self.best is not None
        keys, scores = self.best.found()
        base = torch.where(self.maximum.isneginf(), 0, self.maximum)
        return keys, (scores - base[:, None]).exp()

    def weights(self, keys: range, seen: Tensor | None, factor: Tensor) -> Tensor:
        """The weights of a tile, computed again; `factor` as `close` gives it."""
        x = self.masked(keys, seen)
        x.sub_(torch.where(self.maximum.isneginf(), 0, self.maximum)[:, None])
        w = x.exp_().mul_(factor[:, None])
        return w if seen is None else w.masked_fill_(~seen, 0)
