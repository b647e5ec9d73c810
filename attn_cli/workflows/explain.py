"""explain: the whole arithmetic of one output row, as one would write it on paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from attn_cli import formats
from attn_cli.checks.fine import fine
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.explanation import Explanation
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.settings import Choices
from attn_cli.core.trace import Trace
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.recognize.reading import Reading
from attn_cli.workflows.one_kind import refuse_text
from attn_cli.workflows.paper.page import Page, settled
from attn_cli.workflows.paper.row import Row
from attn_cli.workflows.run import RunOptions, compute, read_dump
from attn_cli.workflows.selection import select

AGREES = "weights and output as the engine computes them, to the last digit"
HEADS_IN_TURN = 4  # all heads of a layer with more would be no page


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What `attn explain` was asked for.

    `terms` is how many terms, keys and features are written: None for all of few and the largest of
    many. Without `heads` all heads of at most four, else head 0; without `item` and `layer` 0.
    """

    query: int
    choices: Choices = field(default_factory=Choices)
    context: str | None = None
    weights: str | None = None
    text: str | None = None  # what a model reads
    layer: int | None = None
    heads: tuple[int, ...] | None = None
    item: int | None = None
    terms: int | None = None


def explain_file(
    source: str, options: ExplainOptions, *, stdin: BinaryIO | None = None
) -> Explanation:
    """Read `source` ("-" for standard input) and write one of its rows out.

    Raises InputError for an index that is not there, and for all that cannot be read.
    """
    dump = formats.read(source, stdin=stdin)
    if is_model(dump):
        from attn_cli.workflows.explain_model import explain_model

        return explain_model(dump, options)
    refuse_text(dump, options.text)
    if options.layer not in (None, 0):
        raise InputError(
            f"there is no layer {options.layer}: this run has 1", hint="leave --layer away"
        )
    reading = read_dump(
        dump, options.choices, context=options.context, weights=options.weights, stdin=stdin
    )
    return explain_reading(reading, options)


def explain_reading(reading: Reading, options: ExplainOptions) -> Explanation:
    """One row of what was read, written out."""
    return explanation(work_out(reading, options), options)


@dataclass(frozen=True, slots=True, eq=False)
class Worked:
    """A row worked out, and the engine's trace that it was compared with, with all findings."""

    reading: Reading
    item: int
    heads: tuple[int, ...]
    page: Page
    trace: Trace


def work_out(reading: Reading, options: ExplainOptions) -> Worked:
    """Run attention in float64, catch the row as it passes and work it out on paper."""
    inputs = reading.inputs
    item, heads = _chosen(inputs, options)
    row = Row(inputs, item, options.query)
    checks = RunChecks(inputs, file_precision=reading.summary.precision)
    run = RunOptions(choices=options.choices, parts=frozenset())
    keep = frozenset({"output"})
    trace = compute(reading, run, checks, keep=keep, watch=row.watch)
    page = settled(row, heads, options.terms)
    said = (*_said_of_choice(inputs, options, item, heads), *_said_of(page, row))
    found = replace(trace, findings=(*trace.findings, *said))
    return Worked(reading, item, heads, page, found)


def explanation(worked: Worked, options: ExplainOptions, *, layer: int = 0) -> Explanation:
    """Everything in its place."""
    reading, trace = worked.reading, worked.trace
    return Explanation(
        input=reading.summary,
        settings=reading.settings,
        shapes=trace.shapes,
        item=worked.item,
        query=options.query,
        heads=worked.heads,
        steps=worked.page.steps,
        digits=worked.page.digits,
        agrees=worked.page.difference is None,
        terms=options.terms,
        findings=trace.findings,
        fine=(*fine(trace.findings), *([AGREES] if worked.page.difference is None else [])),
        labels=reading.inputs.labels,
        layer=layer,
    )


def _chosen(inputs: AttentionInputs, options: ExplainOptions) -> tuple[int, tuple[int, ...]]:
    """The item and the heads; InputError for an index that is not there."""
    selection = select(
        inputs,
        items=(0 if options.item is None else options.item,),
        heads=options.heads,
        queries=(options.query,),
    )
    many = options.heads is None and len(selection.heads) > HEADS_IN_TURN
    return selection.items[0], (0,) if many else selection.heads


def _said_of_choice(
    inputs: AttentionInputs, options: ExplainOptions, item: int, heads: tuple[int, ...]
) -> Iterator[Finding]:
    """Notes where nobody said which item or head."""
    count, n_heads, _, _ = inputs.shape
    if options.item is None and count > 1:
        yield note("first-item", f"item {item} of {count} is written out; --item picks another")
    if options.heads is None and len(heads) < n_heads:
        yield note(
            "first-head",
            f"head {heads[0]} of {n_heads} is written out; --head picks others, such as "
            f"--head 0-{n_heads - 1}",
        )


def _said_of(page: Page, row: Row) -> Iterator[Finding]:
    """A warning where float64 is too coarse for what comes out on paper."""
    if page.difference is None:
        return
    worst = page.difference
    stage, head, index = worst.place
    what = f"the weight of key {index}" if stage == "weights" else f"feature {index} of the {stage}"
    several = head is not None and row.inputs.shape[1] > 1
    paper, engine = _apart(float(worst.written), worst.wanted)
    yield Finding(
        "float64-rounding",
        "warning",
        f"on paper {what}{f' of head {head}' if several else ''} is {paper}, and in the engine's "
        f"float64 it is {engine}: float64 rounds by more than the digits shown",
        Place(stage=stage, layer=0, batch=row.item, head=head, query=row.query),
    )


def _apart(a: float, b: float) -> tuple[str, str]:
    """Both with as many digits as tell them apart, six or more."""
    for digits in range(6, 18):
        written = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if written[0] != written[1]:
            break
    return written
