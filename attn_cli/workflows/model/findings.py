"""Findings of a model: what is odd in its heads, its masks and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.model_heads import HeadFigures
from attn_cli.core.model_health import COLLAPSED
from attn_cli.core.results_model import CallFigures, MaskProbe

NAMED = 6  # heads that are named
SINKS = 1e-3  # a row's sum that is further below 1 than this has a sink


def report_findings(calls: Sequence[CallFigures], checks: Sequence[MaskProbe]) -> Iterator[Finding]:
    """What is said of the shown layers, the gravest last."""
    heads = [head for call in calls for head in call.heads]
    sinks = any(call.facts.sinks for call in calls)
    yield from _same(heads)
    yield from _sums(heads, sinks=sinks)
    yield from _collapsed(heads)
    yield from _empty(heads)
    yield from _filled(heads)
    yield from _lost(heads)
    yield from _moved(checks)
    if heads:
        yield note(
            "no-explanation",
            "weights say where a head looks, not what the output depends on",
        )


def named(heads: Sequence[HeadFigures]) -> str:
    """`L3H4, L3H7 and 5 more`: layer and head, with the tower where there are several."""
    several = len({head.stack for head in heads}) > 1
    words = [head.name(tower=several) for head in heads[:NAMED]]
    more = len(heads) - len(words)
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def _heads(heads: Sequence[HeadFigures]) -> str:
    return "1 head" if len(heads) == 1 else f"{len(heads):,} heads"


def _where(head: HeadFigures) -> Place:
    return Place(stage="weights", layer=head.layer, head=head.head)


def _same(heads: Sequence[HeadFigures]) -> Iterator[Finding]:
    twins = [head for head in heads if head.same_as is not None and head.role != "uniform"]
    if twins:
        verb = "does" if len(twins) == 1 else "do"
        words = f"{_heads(twins)} {verb} what an earlier head of the layer does, in every row"
        yield Finding("same-head", "warning", f"{words}: {named(twins)}", _where(twins[0]))


def _sums(heads: Sequence[HeadFigures], *, sinks: bool) -> Iterator[Finding]:
    low = [head for head in heads if head.least_sum < 1 - SINKS]
    if not low:
        return
    least = min(low, key=lambda head: head.least_sum)
    mean = sum(1 - head.means["sum"] for head in low) / len(low)
    if sinks:
        yield note(
            "sinks",
            f"rows of {_heads(low)} sum below 1 by design: the sink takes {mean:.3f} of the "
            f"weight on average, {1 - least.least_sum:.3f} at most ({named([least])})",
            _where(least),
        )
        return
    yield Finding(
        "row-sum",
        "warning",
        f"rows of {_heads(low)} do not sum to 1 (least {least.least_sum:.6f}): {named(low)}",
        _where(least),
    )


def _collapsed(heads: Sequence[HeadFigures]) -> Iterator[Finding]:
    low = [head for head in heads if head.means["normalized_entropy"] < COLLAPSED]
    if low:
        low.sort(key=lambda head: head.means["normalized_entropy"])
        yield note(
            "low-entropy",
            f"{_heads(low)} with a normalised entropy below "
            f"{COLLAPSED}: one key has nearly all the weight of a row: {named(low)}",
            _where(low[0]),
        )


def _empty(heads: Sequence[HeadFigures]) -> Iterator[Finding]:
    some = [head for head in heads if head.empty_rows]
    if some:
        rows = sum(head.empty_rows for head in some)
        words = f"{rows:,} row{'s' if rows > 1 else ''} of {_heads(some)} see no key"
        yield Finding("empty-row", "warning", f"{words}: {named(some)}", _where(some[0]))


def _filled(heads: Sequence[HeadFigures]) -> Iterator[Finding]:
    some = [head for head in heads if head.filled_rows]
    if some:
        rows = sum(head.filled_rows for head in some)
        yield Finding(
            "finite-fill-row",
            "warning",
            f"{rows:,} row{'s' if rows > 1 else ''} of {_heads(some)} see only keys filled "
            "with a large negative number, which masks nothing: the constant cancels in the "
            f"softmax: {named(some)}",
            _where(some[0]),
        )


def _lost(heads: Sequence[HeadFigures]) -> Iterator[Finding]:
    some = [head for head in heads if head.lost]
    if some:
        words = f"NaN or inf took part in {_heads(some)}"
        yield Finding("nonfinite", "error", f"{words}: {named(some)}", _where(some[0]))


def _moved(checks: Sequence[MaskProbe]) -> Iterator[Finding]:
    for check in checks:
        if check.verdict != "different":
            continue
        where = "in the model's output alone"
        if check.place is not None:
            where = f"first at {check.place}, head {check.head}, query {check.query}"
        yield Finding(
            "mask-leaks",
            "error",
            f"{check.changed} changed, and rows that must not see it moved by "
            f"{check.max_abs:.3g}: {where}",
            Place(stage="weights", batch=check.item, head=check.head, query=check.query),
        )


def fine_words(calls: Sequence[CallFigures], checks: Sequence[MaskProbe]) -> Iterator[str]:
    """What was looked at and holds."""
    heads = [head for call in calls for head in call.heads]
    if heads and all(head.least_sum >= 1 - SINKS for head in heads):
        yield "every row sums to 1"
    if heads and not any(head.empty_rows or head.filled_rows for head in heads):
        yield "no empty rows"
    for check in checks:
        if check.verdict != "different":
            rows = "1 row that does" if check.held == 1 else f"{check.held:,} rows that do"
            yield f"{check.changed} changed: {rows} not see it stayed"
