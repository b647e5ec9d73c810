"""Sizes: how many queries, keys, items and heads a mask is looked at with."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.core.findings import Finding
from attn_cli.core.masks import MaskContext
from attn_cli.core.settings import Align
from attn_cli.errors import InputError
from attn_cli.masks import MASKS
from attn_cli.masks.expression import MaskExpression
from attn_cli.masks.tree import Term
from attn_cli.recognize.alignment import align_positions
from attn_cli.workflows.mask_loading import MaskFiles

DEFAULT = 8  # queries and keys where nothing asks for more
MOST = 1_000_000


def context_for(
    expression: MaskExpression,
    files: MaskFiles,
    *,
    queries: int | None,
    keys: int | None,
    align: Align | None,
) -> tuple[MaskContext, tuple[Finding, ...]]:
    """The sizes that were asked for, else those that the expression needs to be seen.

    Where one of `queries` and `keys` is given, the other equals it. Batch and heads are those of
    the masks that have them: lengths of padding, files.
    """
    terms = list(expression.root.terms())
    least_queries, least_keys = _needed(terms, files)
    length = queries or keys
    queries, keys = queries or length or least_queries, keys or length or least_keys
    for count, name in ((queries, "queries"), (keys, "keys")):
        if count > MOST:
            raise InputError(
                f"{count:,} {name} are too many: at most {MOST:,}", hint="pass -q and -k"
            )
    batch, heads = _leading(terms, files)
    alignment = align_positions(queries, keys, asked=align, cross=False, compares=None)
    offset = alignment.q_offset
    context = MaskContext(
        batch, heads, queries, keys, offset or 0, offset is not None, load=files.load
    )
    return context, alignment.findings


def _needed(terms: list[Term], files: MaskFiles) -> tuple[int, int]:
    """How many queries and keys it takes to see what every mask of the expression does."""
    shapes = [files.load(path).shape[-2:] for path in _paths(terms)]
    files_queries, files_keys = ([s[axis] for s in shapes if s[axis] > 1] for axis in (0, 1))
    if files_queries or files_keys:
        keys = (files_keys or files_queries)[0]
        return (files_queries or [keys])[0], keys
    fixed = [_room(term) for term in terms if MASKS[term.name].fixed]
    length = fixed[0] if fixed else max(DEFAULT, *map(_room, terms))
    return length, length


def _room(term: Term) -> int:
    return 1 if term.name == "file" else MASKS[term.name].room(*term.values)


def _leading(terms: list[Term], files: MaskFiles) -> tuple[int, int]:
    """Batch items and heads: the most that a mask of the expression has."""
    batches, heads = [1], [1]
    lengths = (term.values[0] for term in terms if term.name == "padding")
    batches += [len(some) for some in lengths if isinstance(some, tuple)]
    for path in _paths(terms):
        shape = files.load(path).shape
        batches += shape[:1] if len(shape) in (3, 4) else ()
        heads += shape[1:2] if len(shape) == 4 else ()
    return max(batches), max(heads)


def _paths(terms: list[Term]) -> Iterator[str]:
    for term in terms:
        if term.name == "file":
            yield str(term.values[0])
