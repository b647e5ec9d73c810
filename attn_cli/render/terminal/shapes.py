"""The shape trace: one line a step, one column a named axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from attn_cli.core.trace import StageShape
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.table import Column, Layout, table

LEAST_FORMULA = 12  # columns of the screen
AXES = ("batch", "head", "query", "key")
K_AND_V = "k, v"


def shapes(steps: Sequence[StageShape], screen: Screen) -> Text:
    """Stage, formula, the size of every axis; the width last, with its name."""
    merged = list(_merged(steps))
    how = Column("how", [screen.text(step.formula) for _, step in merged], "left")
    columns = [
        Column("stage", [screen.text(name, "bold") for name, _ in merged], "left"),
        how,
        *axis_columns([step for _, step in merged]),
        Column("width", [width_cell(*line) for line in merged], "left"),
    ]
    dtypes = {step.dtype for step in steps}
    if len(dtypes) > 1:
        columns.append(Column("dtype", [screen.text(step.dtype) for _, step in merged], "left"))
    narrow = Layout(folded(columns, screen.width, gap=2), gap=2)
    return table([Layout(columns, gap=3), Layout(columns, gap=2), narrow], screen)


def folded(columns: Sequence[Column], width: int, *, gap: int) -> list[Column]:
    """The columns with long formulas (the second) broken at blanks into lines below each other."""
    others = sum(column.width for column in columns) - columns[1].width
    room = max(width - others - gap * (len(columns) - 1), LEAST_FORMULA)
    lines = [wrap(cell.plain, room) or [""] for cell in columns[1].cells]
    return [
        Column(column.title, list(_spread(column.cells, lines, number == 1)), column.justify)
        for number, column in enumerate(columns)
    ]


def _spread(cells: Sequence[Text], lines: Sequence[Sequence[str]], formula: bool) -> Iterator[Text]:
    """A cell for every line: the formula's own, or the cell on the first and nothing below."""
    for cell, parts in zip(cells, lines, strict=True):
        for number, part in enumerate(parts):
            yield Text(part, cell.style) if formula else Text() if number else cell


def _merged(steps: Sequence[StageShape]) -> Iterator[tuple[str, StageShape]]:
    """Steps with their names; k and v share a line where only their names differ."""
    waiting = list(steps)
    while waiting:
        step = waiting.pop(0)
        name = step.stage
        if name == "k" and waiting and _alike(step, waiting[0]):
            waiting.pop(0)
            name = K_AND_V
        yield name, step


def _alike(k: StageShape, v: StageShape) -> bool:
    return v.stage == "v" and (k.shape, k.dtype, k.formula) == (v.shape, v.dtype, v.formula)


def axis_columns(steps: Sequence[StageShape]) -> list[Column]:
    """One column an axis that some step has, with its size in each."""
    named = [dict(zip(step.axes, step.shape, strict=True)) for step in steps]
    return [
        Column(axis, [Text(str(sizes[axis]) if axis in sizes else "") for sizes in named])
        for axis in AXES
        if any(axis in sizes for sizes in named)
    ]


def width_cell(name: str, step: StageShape) -> Text:
    """The axes that have no column of their own, with their names."""
    cell = Text()
    for axis, size in zip(step.axes, step.shape, strict=True):
        if axis not in AXES:
            both = f"{axis}, d_v" if name == K_AND_V else axis
            cell.append(f"{both} ", style="dim").append(f"{size} ")
    cell.rstrip()
    return cell
