"""mask of a file: somebody's mask, what it lets through and which known mask it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from attn_cli import formats
from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.core.masks import BoolArray, MaskContext
from attn_cli.core.results_mask import MaskItem, MaskMatch, MaskResult
from attn_cli.errors import InputError
from attn_cli.formats.names import printable
from attn_cli.formats.source import naming
from attn_cli.masks.expression import MaskExpression, parse
from attn_cli.masks.tree import Term
from attn_cli.paste import write_code
from attn_cli.paste.sheet import Sheet
from attn_cli.recognize.known_masks import offset_of
from attn_cli.recognize.mask_fills import HIDES
from attn_cli.recognize.matching import matches_of
from attn_cli.recognize.stored_mask import StoredMask, read_mask
from attn_cli.workflows.mask_items import grid_of, items_of_array
from attn_cli.workflows.mask_loading import Code, loading
from attn_cli.workflows.mask_options import MaskOptions
from attn_cli.workflows.mask_rows import (
    Rows,
    empty_row,
    first_place,
    queries_in_words,
    said_of_empty,
)


def mask_of_file(source: str, options: MaskOptions, stdin: BinaryIO | None) -> MaskResult:
    """Somebody's mask; InputError where the file holds none, or not of the size asked for."""
    dump = formats.read(source, stdin=stdin)
    with naming(source):
        stored = read_mask(dump)
        _check_asked(stored, options)
    batch, heads, queries, keys = stored.visible.shape
    matches = matches_of(stored)
    items = items_of_array(stored.visible)
    same = _same(matches)
    align = same.align if same is not None else None
    query_ranges, key_ranges = grid_of(queries, keys)
    sheet = _sheet(dump, stored, matches, items)
    return MaskResult(
        expression=same.expression if same is not None and same.as_it_stands else None,
        file=replace(stored.file, matches=matches),
        batch=batch,
        heads=heads,
        queries=queries,
        keys=keys,
        align=align,
        q_offset=offset_of(align, queries, keys),
        exact=True,
        items=items,
        query_ranges=query_ranges,
        key_ranges=key_ranges,
        code=write_code(sheet, options.targets),
        findings=(*stored.findings, *_findings(stored, matches, items)),
    )


def _check_asked(stored: StoredMask, options: MaskOptions) -> None:
    queries, keys = stored.visible.shape[2:]
    for asked, held, option in ((options.queries, queries, "-q"), (options.keys, keys, "-k")):
        if asked is not None and asked != held:
            raise InputError(
                f"{option} is {asked}, and the mask has shape {stored.file.shape}: a file's mask "
                "is shown as large as it is"
            )
    if options.align is not None:
        raise InputError("--align is for expressions: the rows of a file's mask are what they are")


def _same(matches: tuple[MaskMatch, ...]) -> MaskMatch | None:
    """The known mask that the file holds, up to its polarity; None where it is not clear."""
    if len(matches) != 1 or matches[0].where or matches[0].shift or matches[0].swapped:
        return None
    return matches[0]


def _findings(
    stored: StoredMask, matches: tuple[MaskMatch, ...], items: tuple[MaskItem, ...]
) -> Iterator[Finding]:
    told: set[str] = set()
    for match in matches:
        if not match.as_it_stands:
            this = "or this is" if match.where in told else "this is"
            place = f"{match.where}: " if match.where else ""
            inverted = stored.file.kind != "additive" and match.polarity == "hidden"
            advice = "; for scaled_dot_product_attention invert it" if inverted else ""
            yield Finding("known-mask", "warning", f"{place}{this} {match.words}{advice}")
        told.add(match.where)
    finite, empty = _empty_rows(stored, items)
    count = sum(len(some) for _, some in finite)
    if count:
        yield Finding(
            "finite-fill-row",
            "warning",
            f"{count:,} row{'s have' if count > 1 else ' has'} every key filled with a finite "
            f"number: {queries_in_words(finite)}; the fill cancels in the softmax, so nothing is "
            "masked there (--fills measures it)",
            first_place(finite),
        )
    yield from empty_row(empty)
    if all(item.visible == item.total for item in items):
        yield note("mask-hides-nothing", "the mask hides nothing: every query sees every key")


def _empty_rows(stored: StoredMask, items: tuple[MaskItem, ...]) -> tuple[Rows, Rows]:
    """Rows that see no key: those that a finite fill leaves unmasked, and the others."""
    finite, empty = [], []
    for item in items:
        filled = np.zeros(len(item.empty), np.bool_)
        if stored.finite is not None:
            filled = stored.finite[item.batch, item.head, item.empty].any(-1)
        finite.append((item, item.empty[filled]))
        empty.append((item, item.empty[~filled]))
    return finite, empty


def _sheet(
    dump: Dump, stored: StoredMask, matches: tuple[MaskMatch, ...], items: tuple[MaskItem, ...]
) -> Sheet:
    """What code is to be written: the known mask where it is one, else the file, loaded."""
    batch, heads, queries, keys = stored.visible.shape
    name, same = printable(dump.source), _same(matches)
    if same is not None:
        offset = offset_of(same.align, queries, keys)
        context = MaskContext(batch, heads, queries, keys, offset)
        read = " with True = hidden" if same.polarity == "hidden" else ""
        empty = said_of_empty(items) if same.as_it_stands else ""
        return Sheet(parse(same.expression), context, same.align, empty, f"{name} is this{read}")
    array = _as_axes(stored)
    context = MaskContext(batch, heads, queries, keys, load=lambda path: array)
    expression = MaskExpression(Term("file", (dump.source,)))
    return Sheet(
        expression,
        context,
        empty=said_of_empty(items),
        loading=lambda path: _loading(dump, stored),
    )


def _as_axes(stored: StoredMask) -> BoolArray:
    """What is visible, with the axes that `_loading` gives the array."""
    if "batch" not in stored.file.axes and "head" not in stored.file.axes:
        plain: BoolArray = stored.visible[0, 0]
        return plain
    per_item = stored.file.axes == ("batch", "query", "key")
    axes: BoolArray = stored.visible[:, 0] if per_item else stored.visible
    return axes


_PLACED = {
    ("key",): "[None]",
    ("batch", "key"): "[:, None, None]",
    ("head", "query", "key"): "[None]",
}


def _loading(dump: Dump, stored: StoredMask) -> Code:
    """Code for what is visible, as bool, with 2 to 4 axes."""
    file = stored.file
    loaded, imports = loading(dump, file.name or next(iter(dump.arrays)))
    if file.kind != "additive":
        seen = f"{loaded} {'==' if file.polarity == 'hidden' else '!='} 0"
    elif stored.weak is not None:
        seen = f"{loaded} != {stored.weak!r}"
    else:
        seen = f"~({loaded} <= {HIDES:g})"
    placed = _PLACED.get(file.axes, "")
    return (f"({seen}){placed}" if placed else seen), imports
