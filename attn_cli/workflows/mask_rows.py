"""Rows that see no key, in words: for findings and for comments in code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_cli.core.findings import Finding, Place
from attn_cli.core.results_mask import Counts, MaskItem
from attn_cli.core.spans import spans

ITEMS_NAMED = 3  # items and heads whose rows are named

Rows = Sequence[tuple[MaskItem, Counts]]  # of every item and head


def empty_row(rows: Rows) -> Iterator[Finding]:
    """A warning that names the rows; none where there are none."""
    count = sum(len(some) for _, some in rows)
    if count:
        words = f"{count:,} row{'s see' if count > 1 else ' sees'} no key: {queries_in_words(rows)}"
        yield Finding(
            "empty-row",
            "warning",
            f"{words}; scaled_dot_product_attention returns 0 there, nn.MultiheadAttention NaN "
            "(--fills measures it)",
            first_place(rows),
        )


def empty_of(items: Sequence[MaskItem]) -> Rows:
    """The rows of each item that see no key."""
    return [(item, item.empty) for item in items]


def said_of_empty(items: Sequence[MaskItem]) -> str:
    """`queries 0–2 see no key`; "" where every row sees one."""
    rows = empty_of(items)
    count = sum(len(some) for _, some in rows)
    return f"{queries_in_words(rows)} {'see' if count > 1 else 'sees'} no key" if count else ""


def first_place(rows: Rows) -> Place:
    """Where the first of the rows is."""
    item, some = next((item, some) for item, some in rows if len(some))
    return Place(batch=item.batch, head=item.head, query=int(some[0]))


def queries_in_words(rows: Rows) -> str:
    """`query 0`, `queries 0–2`, or the same of each item and head that has some."""
    named = [(item, some) for item, some in rows if len(some)]
    if all(some.tolist() == rows[0][1].tolist() for _, some in rows):
        return _queries(rows[0][1])
    words = [f"{_where(item, rows)} {_queries(some)}" for item, some in named[:ITEMS_NAMED]]
    more = len(named) - len(words)
    return "; ".join(words) + (f"; and rows of {more} more" if more else "")


def _queries(some: Counts) -> str:
    return f"{'query' if len(some) == 1 else 'queries'} {spans(some.tolist())}"


def _where(item: MaskItem, rows: Rows) -> str:
    head = f", head {item.head}" if any(other.head for other, _ in rows) else ""
    return f"item {item.batch}{head}"
