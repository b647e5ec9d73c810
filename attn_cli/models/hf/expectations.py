"""Expectations: Σ p and Σ p·g of every term for blocks of rows, p whole rows of the keys.

A term that is linear in a range of keys needs no values of its own there, only Σ p and Σ p·k; so
the keys are cut where terms bend: behind key 0, and around the block's own positions. What does not
depend on p is kept for the next call with a block that lies alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from attn_cli.core.statistics import LinearTerm, Term

NEAR = 1  # how far from its query a key may be for which a term has a value of its own
KEPT = 1 << 22  # numbers that are kept in all


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """Σ p·g = Σ p · `by_row` (l,) + Σ p·(first query − k) · `by_key`."""

    by_row: Tensor
    by_key: int


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Some keys: the terms that are linear and not 0 there, and the values of the others."""

    keys: slice
    lines: Mapping[str, _Line]
    columns: Tensor  # (keys, 2): 1, and how far each key lies before the first query
    others: tuple[str, ...]
    values: Tensor  # (l, keys, others)


class Expectations:
    """What `terms` need of p; `of` gives it for a block."""

    def __init__(self, terms: Mapping[str, Term]) -> None:
        self.terms = terms
        self._kept: dict[object, list[_Piece]] = {}
        self._numbers = 0

    def of(self, p: Tensor, queries: range) -> dict[str, Tensor]:
        """`total` = Σ p and Σ p·g by name, (B, H, l), of p (B, H, l, S) at these positions."""
        found: dict[str, Tensor] = {"total": p.sum(-1)}
        for piece in self._pieces(p, queries):
            for name, value in _of_piece(p[..., piece.keys], piece):
                found[name] = found[name].add_(value) if name in found else value
        for name in self.terms.keys() - found.keys():
            found[name] = torch.zeros_like(found["total"])
        return found

    def _pieces(self, p: Tensor, queries: range) -> list[_Piece]:
        where = (queries, p.shape[-1], p.dtype, p.device)
        if (kept := self._kept.get(where)) is not None:
            return kept
        pieces = [_piece(self.terms, queries, keys, p) for keys in _ranges(queries, p.shape[-1])]
        size = sum(piece.values.numel() + piece.columns.numel() for piece in pieces)
        if self._numbers + size <= KEPT:
            self._kept[where] = pieces
            self._numbers += size
        return pieces


def _ranges(queries: range, count: int) -> Iterator[range]:
    """All keys: key 0, those before the queries, those among them, those behind."""
    cuts = {0, 1, queries.start - NEAR, queries.stop + NEAR, count}
    inside = sorted(cut for cut in cuts if 0 <= cut <= count)
    return (range(first, last) for first, last in pairwise(inside))


def _piece(terms: Mapping[str, Term], queries: range, keys: range, p: Tensor) -> _Piece:
    q_pos, k_pos = (
        torch.arange(each.start, each.stop, dtype=p.dtype, device=p.device)
        for each in (queries, keys)
    )
    linear = {
        name: line
        for name, g in terms.items()
        if isinstance(g, LinearTerm) and (line := g.linear(queries, keys)) is not None
    }
    others = tuple(name for name in terms if name not in linear)
    shape = (len(queries), len(keys))
    values = [terms[name](q_pos[:, None], k_pos).to(p.dtype).expand(shape) for name in others]
    return _Piece(
        slice(keys.start, keys.stop),
        {name: _line(line, queries, p) for name, line in linear.items() if any(line)},
        torch.stack([torch.ones_like(k_pos), queries.start - k_pos]).mT,
        others,
        torch.stack(values, -1) if values else p.new_empty(0),
    )


def _line(line: tuple[int, int, int], queries: range, p: Tensor) -> _Line:
    """Counted from the block's first query, so that far positions lose nothing."""
    constant, by_query, by_key = line
    rows = torch.arange(len(queries), dtype=p.dtype, device=p.device)
    return _Line(constant + (by_query + by_key) * queries.start + by_query * rows, -by_key)


def _of_piece(p: Tensor, piece: _Piece) -> Iterator[tuple[str, Tensor]]:
    """Σ p·g over a piece, term by term."""
    if piece.lines:
        total, before = (p @ piece.columns).unbind(-1)
        for name, line in piece.lines.items():
            yield name, (total * line.by_row).add_(before, alpha=line.by_key)
    if piece.others:
        found = _product(p, piece.values)
        for name, value in zip(piece.others, found.unbind(-1), strict=True):
            yield name, value


def _product(p: Tensor, values: Tensor) -> Tensor:
    """Σ p·g over the keys of values (l, keys, n) that every row has its own of: (B, H, l, n)."""
    if p.shape[-1] == 1:
        return p * values[:, 0]
    batch, heads, length, keys = p.shape
    by_row = p.reshape(batch * heads, length, keys).transpose(0, 1)  # (l, B·H, keys)
    return torch.bmm(by_row, values).transpose(0, 1).reshape(batch, heads, length, -1)
