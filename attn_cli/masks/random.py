"""The mask `random`: a few keys a query, drawn by a hash, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.hashing import draw, mix, word_of
from attn_cli.core.masks import BoolArray, IntArray, Mask, MaskContext, TileKind
from attn_cli.errors import MisfitError
from attn_cli.masks.base import Not, classify
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import Formula, Writing, formula, inverted

BYTES_AT_ONCE = 2**24  # of the table of taken keys
FEW = 4  # keys a query that pasted code compares one by one

# The same draws in PyTorch, whose integers are signed: products wrap around, and what a shift
# brings in from the left is masked away.
IN_TORCH = """\
def mix(word):  # splitmix64
    word = (word ^ (word >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    word = (word ^ (word >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return word ^ (word >> 31 & 0x1FFFFFFFF)


def random_keys(positions, size, seed, keys):  # (size, queries), as attn draws them
    of_row = mix(mix(torch.tensor(seed, device=positions.device)) + positions)
    drawn = torch.empty(size, len(positions), dtype=torch.int64, device=positions.device)
    for i in range(size):
        last = keys - size + i
        step = torch.tensor(i + 1, device=positions.device) * -0x61C8864680B583EB
        word = mix(of_row + step)
        number = (word >> 1 & 0x7FFFFFFFFFFFFFFF) % (last + 1) * 2 + (word & 1)
        key = number % (last + 1)
        drawn[i] = torch.where((drawn[:i] == key).any(0), last, key)
    return drawn

"""


@dataclass(frozen=True, slots=True)
class Random:
    """Every query sees `size` distinct ones of `keys` keys, the same in every batch item and head.

    The draws are hashes of (seed, query), so that no random generator's version matters.
    A tile costs its rows × min(size², keys).

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(Random(2, seed=0, keys=8), 4, 8))
    ..#.#...
    ...#...#
    #....#..
    .#....#.
    """

    size: int
    seed: int
    keys: int

    def __call__(self, b: IntArray, h: IntArray, q_pos: IntArray, k_pos: IntArray) -> BoolArray:
        rows, row_of = np.unique(q_pos, return_inverse=True)
        stretch = range(int(k_pos.min()), int(k_pos.max()) + 1)
        table = self._table(rows, stretch)
        return table[row_of.reshape(q_pos.shape), k_pos - stretch.start]

    def tile(self, b: int, h: int, queries: range, keys: range) -> TileKind:
        drawn = self.drawn(np.arange(queries.start, queries.stop))
        inside = np.count_nonzero((drawn >= keys.start) & (drawn < keys.stop))
        return classify(empty=inside == 0, full=inside == len(queries) * len(keys))

    def drawn(self, rows: IntArray) -> NDArray[np.int64]:
        """The keys that each of these queries sees, (size, rows)."""
        pieces = np.array_split(rows, -(-rows.size * self.keys // BYTES_AT_ONCE))
        return np.concatenate([self._draw(piece) for piece in pieces], axis=1)

    def _draw(self, rows: IntArray) -> NDArray[np.int64]:
        """Floyd's sampling (Bentley and Floyd, 1987): every set of keys is equally likely.

        Draw from the first `last` + 1 keys; a key that is taken gives way to `last`, which is not.
        """
        of_row = mix(
            mix(word_of(self.seed)) + rows.astype(np.uint64)
        )  # a negative one wraps around
        many = self.size**2 > self.keys  # then a table of taken keys is cheaper than a search
        row, taken = np.arange(rows.size), np.zeros((rows.size, self.keys * many), dtype=np.bool_)
        drawn = np.empty((self.size, rows.size), dtype=np.int64)
        for i in range(self.size):
            last = self.keys - self.size + i
            number = draw(of_row, np.full(1, i + 1))
            key = (number % np.uint64(last + 1)).astype(np.int64)
            there = taken[row, key] if many else (drawn[:i] == key).any(axis=0)
            drawn[i] = np.where(there, last, key)
            if many:
                taken[row, drawn[i]] = True
        return drawn

    def _table(self, rows: IntArray, stretch: range) -> BoolArray:
        """What these queries see of a stretch of keys, (rows, keys of the stretch)."""
        table = np.zeros((rows.size, len(stretch)), dtype=np.bool_)
        column = self.drawn(rows) - stretch.start
        draw, row = np.nonzero((column >= 0) & (column < len(stretch)))
        table[row, column[draw, row]] = True
        return table


def _make(context: MaskContext, size: int, seed: int) -> Mask:
    if size > context.keys:
        raise MisfitError(
            f"random({size}) asks for {size} distinct keys, and there are {context.keys}",
            hint=f"n is at most {context.keys} here",
        )
    if size > context.keys // 2:  # fewer draws: those that are hidden
        return Not(Random(context.keys - size, seed, context.keys))
    return Random(size, seed, context.keys)


def _code(at: Writing, size: int, seed: int) -> Formula:
    """The keys of each query in a table that pasted code draws by the same hash."""
    keys = at.context.keys
    hidden = size > keys // 2
    size = keys - size if hidden else size
    seen = _seen(at, size, seed) if size else formula(f"{at.k} < 0")
    return inverted(seen) if hidden else seen


def _seen(at: Writing, size: int, seed: int) -> Formula:
    first, queries, keys = at.context.q_offset, at.context.queries, at.context.keys
    drawn = at.name("drawn")
    signed = seed - 2**64 if seed >= 2**63 else seed
    positions = f"torch.arange({first}, {first + queries}, device=device)"
    draw = f"{drawn} = random_keys({positions}, {size}, seed={signed}, keys={keys})"
    if size <= FEW:
        each = (f"{drawn}[{i}, {at.row}] == {at.k}" for i in range(size))
        return formula(*each, operator="|", setup=[IN_TORCH, draw])
    table = at.name("chosen")
    setup = [
        f"{table} = torch.zeros({queries}, {keys}, dtype=torch.bool, device=device)",
        f"{table}[torch.arange({queries}, device=device), {drawn}] = True",
    ]
    return formula(f"{table}[{at.row}, {at.k}]", setup=[IN_TORCH, draw, *setup])


MASK = MaskKind(
    name="random",
    signature="random(n) or random(n, seed=0)",
    description="n distinct keys a query, drawn by a hash of the seed and the query's position",
    make=_make,
    code=_code,
    room=lambda size, seed: size,
    scattered=True,
    parameters=(Parameter("n"), Parameter("seed", most=2**64 - 1, default=0)),
)
