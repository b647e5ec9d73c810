"""The screen of `attn model`: coverage first, then masks, layers, heads, and the findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.model_heads import tower
from attn_cli.core.results_model import CallFigures, HeadView, ModelMask, ModelReport
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.model import heading
from attn_cli.render.terminal.model_answers import answer_blocks
from attn_cli.render.terminal.model_heads import head_table
from attn_cli.render.terminal.model_layers import layer_table
from attn_cli.render.terminal.model_masks import mask_table
from attn_cli.render.terminal.model_matrix import head_matrix, legend
from attn_cli.render.terminal.model_runs import run_blocks
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.run import drawn

VIEW = ("shapes", "weights", "rows", "heads", "values", "findings")


def model_report_screen(
    report: ModelReport, screen: Screen, *, figures: Sequence[str], bits: bool = False
) -> str:
    """The whole screen as text; `figures` are drawn as matrices, by their JSON names.

    Where something was asked and no figure is named, the layers and heads are left out.
    """
    blocks = [list(_head(report, screen)), list(mask_table(_used(report), screen))]
    if report.views:
        blocks += [list(_view(view, report, screen, bits=bits)) for view in report.views]
    elif figures or not (report.answers.any_shown or report.runs.any_shown):
        for name, calls in stacks(report.calls).items():
            blocks += _stack(name, calls, report, screen, figures, bits=bits)
    blocks += answer_blocks(report.answers, screen)
    blocks += run_blocks(report.runs, screen)
    blocks.append(list(findings(report.findings, report.fine, screen)))
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render(lines[:-1])


def _head(report: ModelReport, screen: Screen) -> Iterator[Text]:
    """What was run, what of it was seen, and that it was left as it is."""
    read = report.read
    title = screen.text(read.source, "bold")
    facts = [screen.text(fact) for fact in _facts(report)]
    first = title.cell_len + 2
    yield Text("  ").join([title, packed(facts, screen, indent=2, first=first)])
    for words in (report.coverage.sentence, report.coverage.precision, _untouched(report)):
        if words:
            yield hanging(screen.text(words), screen, indent=2)
    elsewhere = report.coverage.elsewhere
    if elsewhere:
        words = f"taken for no attention: softmax in {', '.join(elsewhere[:3])}"
        more = f" and {len(elsewhere) - 3:,} more" if len(elsewhere) > 3 else ""
        yield hanging(screen.text(words + more, "dim"), screen, indent=2)


def _facts(report: ModelReport) -> Iterator[str]:
    read = report.read
    yield read.architecture
    yield read.kind
    heads = sorted({(call.heads, call.kv_heads) for call in report.coverage.calls})
    if len(heads) == 1:
        many, kv = heads[0]
        shared = f" on {counted(kv, 'key/value head')}" if kv is not None and kv != many else ""
        yield f"{counted(many, 'head')} a layer{shared}"
    yield from _given(report)
    yield f"{read.dtype} on {read.device}"


def _given(report: ModelReport) -> Iterator[str]:
    read = report.read
    if read.tokens:
        longest = max(map(len, read.tokens))
        many = f"{counted(read.batch, 'item')} of " if read.batch > 1 else ""
        padding = f" with padding ({_listed(read.lengths)} real)" if read.padded else ""
        yield f"{read.given}: {many}{counted(longest, 'token')}{padding}"
    else:
        yield read.given
    if read.decoder_tokens:
        yield f"decoder: {counted(max(map(len, read.decoder_tokens)), 'token')}"


def _listed(lengths: Sequence[int]) -> str:
    shown = ", ".join(map(str, lengths[:6]))
    return f"{shown}, …" if len(lengths) > 6 else shown


def _untouched(report: ModelReport) -> str:
    check = report.output
    if check.verdict == "identical":
        return "output bit-equal to that of the untouched model"
    return (
        f"output within rounding of the untouched model ({check.output}: {check.max_abs:.2g} of "
        f"{check.limit:.2g} allowed)"
    )


def _used(report: ModelReport) -> list[ModelMask]:
    """The masks of the shown layers."""
    shown = {call.mask for call in report.calls}
    return [mask for number, mask in enumerate(report.masks) if number in shown]


def stacks(calls: Sequence[CallFigures]) -> dict[str, list[CallFigures]]:
    """The calls of each tower by its name; cross-attention is a tower of its own."""
    found: dict[str, list[CallFigures]] = {}
    for call in calls:
        found.setdefault(tower(call.facts), []).append(call)
    return found


def _stack(
    name: str,
    calls: Sequence[CallFigures],
    report: ModelReport,
    screen: Screen,
    figures: Sequence[str],
    *,
    bits: bool,
) -> Iterator[list[Text]]:
    """The layers of one tower, then its heads as matrices, or as lines where they were chosen."""
    if len(stacks(report.calls)) > 1:
        yield [heading(name or "the model", screen)]
    if report.narrowed:
        yield list(head_table(calls, screen, bits=bits))
        return
    yield list(layer_table(calls, screen, bits=bits))
    matrices = [line for figure in figures for line in head_matrix(calls, figure, screen)]
    yield [*matrices, *legend(calls, screen)]


def _view(view: HeadView, report: ModelReport, screen: Screen, *, bits: bool) -> Iterator[Text]:
    """One head as `attn run` shows it."""
    several = f", item {view.item}" if report.read.batch > 1 else ""
    yield heading(f"{view.facts.place}, head {view.run.chosen['head'][0]}{several}", screen)
    yield from drawn(view.run, screen, parts=VIEW, bits=bits)
    if not math.isnan(view.context_gap):
        near = 10.0 ** math.ceil(math.log10(max(view.context_gap, 1e-16)))
        words = (
            "every stage is computed again, in float64, from the q, k and v of the model; its own "
            f"context is within {near:.0e} of this one"
        )
        yield hanging(screen.text(f"· {words}", "dim"), screen, indent=2)
