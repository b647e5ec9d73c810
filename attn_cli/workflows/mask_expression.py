"""mask of an expression: what it lets through, what its parts do, and the mask as code."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.core.findings import Finding, note
from attn_cli.core.results_mask import MaskResult
from attn_cli.masks import MASKS
from attn_cli.masks.expression import parse
from attn_cli.paste import write_code
from attn_cli.paste.sheet import Sheet
from attn_cli.workflows.mask_items import Counted, Progress, count_items, grid_of
from attn_cli.workflows.mask_loading import MaskFiles
from attn_cli.workflows.mask_options import MaskOptions
from attn_cli.workflows.mask_parts import Parts, count_parts
from attn_cli.workflows.mask_rows import empty_of, empty_row, said_of_empty
from attn_cli.workflows.mask_sizes import context_for


def mask_of_expression(text: str, options: MaskOptions, progress: Progress | None) -> MaskResult:
    """The mask that a text writes, counted at the sizes that were asked for."""
    expression, files = parse(text), MaskFiles()
    context, aligned = context_for(
        expression,
        files,
        queries=options.queries,
        keys=options.keys,
        align=options.align,
    )
    built = expression.build(context)
    scattered = any(MASKS[name].scattered for name in expression.names_used())
    counted = count_items(built, context, scattered=scattered, progress=progress)
    visible = sum(item.visible for item in counted.items)
    parts = count_parts(expression.root, context, visible) if counted.exact else Parts()
    sheet = Sheet(
        expression, context, options.align, said_of_empty(counted.items), loading=files.code
    )
    query_ranges, key_ranges = grid_of(context.queries, context.keys)
    return MaskResult(
        expression=str(expression),
        file=None,
        batch=context.batch,
        heads=context.heads,
        queries=context.queries,
        keys=context.keys,
        align=options.align,
        q_offset=context.q_offset,
        exact=counted.exact,
        items=counted.items,
        query_ranges=query_ranges,
        key_ranges=key_ranges,
        parts=parts.counted,
        code=write_code(sheet, options.targets),
        findings=(*aligned, *_findings(counted, parts)),
    )


def _findings(counted: Counted, parts: Parts) -> Iterator[Finding]:
    if not counted.exact:
        rows = f"{len(counted.items[0].rows):,} rows, spread evenly"
        yield note("estimated", f"too many pairs to count: the numbers are estimated from {rows}")
    if parts.too_much:
        yield note("parts-not-counted", "too many pairs to tell what each part does at this size")
    if parts.left_out:
        yield note("parts-left-out", f"{parts.left_out:,} more parts are not listed")
    yield from empty_row(empty_of(counted.items))
    if counted.exact and all(item.visible == item.total for item in counted.items):
        yield note("mask-hides-nothing", "the mask hides nothing: every query sees every key")
        return
    for part in dict.fromkeys(part.part for part in parts.counted if part.only == 0):
        yield note("idle-part", f"{part} makes no difference here: without it the mask is the same")
