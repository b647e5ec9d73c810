"""How many pairs of query and key a mask expression lets through, and why it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attn_cli.core.masks import MaskContext
from attn_cli.core.problems import Problem
from attn_cli.core.settings import Align
from attn_cli.errors import InputError
from attn_cli.masks import MASKS
from attn_cli.masks.counting import Allowance, Counter, TooMuch, total_by_distance
from attn_cli.masks.declaration import shorten
from attn_cli.masks.expression import MaskExpression, conjunction, parse
from attn_cli.masks.tree import Combination, Node, Term
from attn_cli.recognize.one_array import load_array

# What a mask may differ in, beside positions; the others are the same in every item and head.
PER_ITEM = frozenset({"padding", "file"})
PER_HEAD = frozenset({"file"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The scores that a mask lies over; query 0 stands as `align` says, at key 0 without it."""

    batch: int
    heads: int
    queries: int
    keys: int
    align: Align | None = None

    @property
    def pairs(self) -> int:
        return self.batch * self.heads * self.queries * self.keys

    @property
    def context(self) -> MaskContext:
        offset = self.keys - self.queries if self.align == "lower-right" else 0
        aligned = self.align is not None or self.queries == self.keys
        return MaskContext(
            self.batch, self.heads, self.queries, self.keys, offset, aligned, load=load_array
        )


def expression_of(texts: tuple[str, ...]) -> MaskExpression | None:
    """All of them as one; None where that hides nothing. InputError for what cannot be read."""
    whole = conjunction([parse(text) for text in texts])
    return None if str(whole) == "none" else whole


@dataclass(frozen=True, slots=True)
class Visible:
    """The pairs that a mask lets through in all; `each` of one item and head, None: they differ."""

    pairs: int
    each: int | None

    def hides(self, grid: Grid) -> str:
        """What it hides in words: `hides 3 of 9` where all are alike, else `hides 5 of 18 in all`.

        >>> Visible(6, 3).hides(Grid(batch=1, heads=2, queries=2, keys=2))
        'hides 1 of 4'
        """
        if self.each is None:
            return f"hides {grid.pairs - self.pairs:,} of {grid.pairs:,} in all"
        one = grid.queries * grid.keys
        return f"hides {one - self.each:,} of {one:,}"


def visible_pairs(expression: MaskExpression | None, grid: Grid) -> Visible | None:
    """The pairs that it lets through; None where it does not fit, or counting takes too long."""
    if expression is None:
        return Visible(grid.pairs, grid.queries * grid.keys)
    names = set(expression.names_used())
    items = grid.batch if names & PER_ITEM else 1
    heads = grid.heads if names & PER_HEAD else 1
    try:
        counts = list(_counts(expression, grid, range(items), range(heads)))
    except (InputError, TooMuch):
        return None
    repeated = (grid.batch // items) * (grid.heads // heads)
    return Visible(sum(counts) * repeated, counts[0] if len(set(counts)) == 1 else None)


def _counts(expression: MaskExpression, grid: Grid, items: range, heads: range) -> Iterator[int]:
    """The visible pairs of some items and heads, each by itself."""
    kinds = [MASKS[name] for name in expression.names_used()]
    context, allowance = grid.context, Allowance()
    built = expression.build(context)
    if all(kind.by_distance for kind in kinds):
        yield total_by_distance(
            built,
            queries=grid.queries,
            keys=grid.keys,
            q_offset=context.q_offset,
            allowance=allowance,
        )
        return
    scattered = any(kind.scattered for kind in kinds)
    for item in items:
        for head in heads:
            counter = Counter(built, item, head, context.q_offset, scattered, allowance)
            yield counter.total(range(grid.queries), range(grid.keys))


def window_of(expression: MaskExpression | None) -> int | None:
    """The keys behind which nothing is seen any more, where a window must allow every pair."""
    if expression is None:
        return None
    return min(_windows(expression.root), default=None)


def _windows(node: Node) -> Iterator[int]:
    """The sizes of the windows behind a query that every pair must lie in."""
    parts = node.parts if isinstance(node, Combination) and node.operator == "&" else (node,)
    for part in parts:
        if not isinstance(part, Term) or part.name != "window":
            continue
        size, both = part.values
        if isinstance(size, int) and not both:
            yield size


def mask_problems(expression: MaskExpression | None, grid: Grid) -> Iterator[Problem]:
    """Every part of a mask that does not lie over these scores, and windows that hide nothing.

    That queries and keys are not lined up is `alignment_problem`'s.
    """
    if expression is None:
        return
    context = replace(grid.context, aligned=True)
    for term in dict.fromkeys(expression.root.terms()):
        try:
            term.build(context)
        except InputError as error:
            yield Problem("mask", in_full(error), stage="masked", field="--mask")
        if term.name == "window" and isinstance(size := term.values[0], int) and size > grid.keys:
            yield Problem(
                "window-wider-than-keys",
                f"{term} is wider than the {grid.keys:,} keys: it hides no key for being far away; "
                "give a smaller window, or leave it out",
                severity="warning",
                stage="masked",
                field="--mask",
            )


def alignment_problem(
    expression: MaskExpression | None, grid: Grid, positions: str | None = None
) -> Problem | None:
    """What compares positions that have no common origin, all of it in one sentence."""
    if grid.align is not None or grid.queries == grid.keys:
        return None
    terms = () if expression is None else dict.fromkeys(expression.root.terms())
    compare = [shorten(str(term)) for term in terms if MASKS[term.name].compares_positions]
    compare += [] if positions is None else [f"{positions} positions"]
    if not compare:
        return None
    *first, last = compare
    names = f"{', '.join(first)} and {last}" if first else last
    return Problem(
        "alignment",
        f"{grid.queries:,} queries and {grid.keys:,} keys have no common origin, and {names} "
        "compare" + ("" if first or positions else "s") + " their positions: give --align "
        "lower-right (the last query is the last key, a KV cache) or --align upper-left (query 0 "
        "is key 0)",
        stage="scores",
        field="--align",
    )


def in_full(error: InputError) -> str:
    """The sentence of an error with what to do, as one sentence."""
    return f"{error.message}; {error.hint}" if error.hint else error.message
