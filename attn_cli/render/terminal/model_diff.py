"""Two models side by side: who they are, a line for layers that are alike in their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from attn_cli.core.results_model_diff import (
    LAYER_STAGES,
    LayerDiff,
    ModelDiff,
    ModelSide,
    StageGap,
)
from attn_cli.core.spans import spans
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table

SIGNS = {"identical": ("=", "dim"), "rounding": ("≈", "green"), "different": ("≠", ERROR)}
KEY = "= bit for bit, ≈ within rounding; a number: the largest difference, beyond rounding"
FAULTS = "own: from that stage on also where the layer is given the left side's input"


def diff_block(diff: ModelDiff, screen: Screen) -> Iterator[Text]:
    """Both sides, then the layers; nothing behind tokens that differ."""
    for name, side in (("left", diff.left), ("right", diff.right)):
        yield _side(name, side, screen)
    if not diff.layers:
        return
    yield Text()
    groups = [list(group) for _, group in groupby(diff.layers, _alike)]
    figures = _columns(groups, screen, figures=True)
    signs = _columns(groups, screen, figures=False)
    layouts = [Layout(figures), Layout(figures, 2), Layout(signs, 3), Layout(signs, 2)]
    yield table([*layouts, Layout(signs, 1)], screen)
    if diff.output is not None:
        yield _output(diff, diff.output, screen)
    key = f"{KEY}; {FAULTS}" if any(layer.fault for layer in diff.layers) else KEY
    yield hanging(screen.text(key, "dim"), screen, indent=2)


def _side(name: str, side: ModelSide, screen: Screen) -> Text:
    line = screen.text(f"{name:<7}", "dim").append_text(screen.text(side.source, "bold"))
    facts = [side.architecture, f"attention by {side.backend}", f"{side.dtype} on {side.device}"]
    if side.calls:
        facts.append(counted(side.calls, "call"))
    words = packed([screen.text(f) for f in facts], screen, indent=9, first=line.cell_len + 2)
    return Text("  ").join([line, words])


def _alike(layer: LayerDiff) -> tuple[object, ...]:
    """Neighbours with the same of this share a line."""
    verdicts = tuple((name, gap.verdict) for name, gap in layer.stages.items())
    return layer.stack, layer.cross, verdicts, layer.fault, layer.own_stage


def _columns(
    groups: Sequence[Sequence[LayerDiff]], screen: Screen, *, figures: bool
) -> list[Column]:
    several = len({group[0].stack for group in groups}) > 1
    columns = [Column("layer", [_layer(g, screen, several=several) for g in groups], "left")]
    for stage in LAYER_STAGES:
        cells = [_cell([x.stages.get(stage) for x in g], screen, figures=figures) for g in groups]
        if any(cell.plain for cell in cells):
            columns.append(Column(stage, cells))
    faults = [_fault(group[0], screen) for group in groups]
    if any(fault.plain for fault in faults):
        columns.append(Column("whose doing", faults, "left"))
    return columns


def _layer(group: Sequence[LayerDiff], screen: Screen, *, several: bool) -> Text:
    words = spans([layer.layer for layer in group])
    first = group[0]
    if several and first.stack:
        words = f"{first.stack} {words}"
    return screen.text(f"{words} cross" if first.cross else words, "bold")


def _cell(gaps: Sequence[StageGap | None], screen: Screen, *, figures: bool) -> Text:
    """The largest difference where it is beyond rounding, else a sign."""
    there = [gap for gap in gaps if gap is not None]
    if not there:
        return Text()
    sign, style = SIGNS[there[0].verdict]
    if there[0].shapes is not None:
        return screen.text("shape" if figures else screen.sign(sign), style)
    if figures and there[0].verdict == "different":
        return screen.text(f"{max(gap.max_abs for gap in there):.2g}", style)
    return screen.text(screen.sign(sign), style)


def _fault(layer: LayerDiff, screen: Screen) -> Text:
    if layer.fault is None:
        return Text()
    words = f"own, {layer.own_stage}" if layer.fault == "own" else "inherited"
    return screen.text(words, ERROR if layer.fault == "own" else "dim")


def _output(diff: ModelDiff, output: StageGap, screen: Screen) -> Text:
    """The output of the whole model."""
    line = Text.assemble(("model output  ", "bold"))
    if output.shapes is not None:
        left, right = ("×".join(map(str, shape)) for shape in output.shapes)
        return line.append_text(screen.text(f"{left} and {right}, not compared", ERROR))
    line.append_text(screen.text(output.verdict, SIGNS[output.verdict][1]))
    if output.verdict != "identical":
        line.append(f", up to {output.max_abs:.3g} apart where {output.budget:.2g} is rounding")
    if diff.output_fault is not None:
        line.append_text(screen.text(f", {diff.output_fault}", "dim"))
    return hanging(line, screen, indent=2)
