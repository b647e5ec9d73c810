"""The numbers of a stage: a table for each item and head, long axes by their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from attn_cli.core.results import RunResult
from attn_cli.core.trace import Stage
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import counted
from attn_cli.render.terminal.table import Column, Layout, table

Array = NDArray[Any]

MOST = 24  # rows, columns and tables; a longer axis shows its first and last ones
LAST = 4  # of those, how many are the last ones
LONGEST_TOKEN = 16
PLAIN = (1e-3, 1e5)  # sizes that read well with five digits after the point


def values(result: RunResult, names: Names) -> Iterator[Text]:
    """Each stage: its axes and sizes, then its numbers with the tokens beside them."""
    for place, (name, stage) in enumerate(result.values.items()):
        if place:
            yield Text()
        yield _heading(name, stage, names.screen)
        every = list(np.ndindex(stage.array.shape[:-2]))
        indices = _indices(stage, result.chosen)
        for at in every[:MOST]:
            where = _where(stage, at, indices, result)
            if where:
                yield names.screen.text(where, "bold")
            yield _matrix(stage, at, indices, names)
        if len(every) > MOST:
            left_out = counted(len(every) - MOST, "table")
            yield names.screen.text(f"{left_out} more: --head, --item, --json or --save", "dim")


def _heading(name: str, stage: Stage, screen: Screen) -> Text:
    sizes = zip(stage.axes, stage.array.shape, strict=True)
    words = " · ".join(f"{axis} {size}" for axis, size in sizes)
    return Text("  ").join(
        [screen.text(name, "bold"), screen.text(f"{words} · {stage.dtype}", "dim")]
    )


def _indices(stage: Stage, chosen: Mapping[str, tuple[int, ...]]) -> Mapping[str, Sequence[int]]:
    """Axis → the index in the run of each position: k and v keep their heads, which are shared."""
    shared = "key" in stage.axes and "query" not in stage.axes
    return {
        axis: range(size) if shared and axis != "batch" else chosen.get(axis, range(size))
        for axis, size in zip(stage.axes, stage.array.shape, strict=True)
    }


def _where(
    stage: Stage, at: tuple[int, ...], indices: Mapping[str, Sequence[int]], result: RunResult
) -> str:
    """`item 1, head 0`, less the axes of which the run has one."""
    several = {"batch": result.input.batch > 1, "head": result.settings.heads > 1}
    words = {"batch": "item"}
    return ", ".join(
        f"{words.get(axis, axis)} {indices[axis][place]}"
        for axis, place in zip(stage.axes, at, strict=False)
        if several.get(axis, True)
    )


def _matrix(
    stage: Stage, at: tuple[int, ...], indices: Mapping[str, Sequence[int]], names: Names
) -> Text:
    matrix, (down, across) = stage.array[at], stage.axes[-2:]
    batch = indices["batch"][at[0]] if "batch" in stage.axes[:-2] else 0
    rows = _ends(matrix.shape[0], MOST)
    tokens = [
        names.screen.text("…", "dim")
        if row is None
        else Text(names.along(down, batch, indices[down][row], LONGEST_TOKEN))
        for row in rows
    ]
    labels = Column(names.screen.sign(f"{down} ╲ {across}"), tokens, "left")
    titles = [names.along(across, batch, index, LONGEST_TOKEN) for index in indices[across]]
    layouts = (
        Layout([labels, *_columns(matrix, rows, titles, count, names.screen)], 2)
        for count in range(min(matrix.shape[1], MOST), 0, -1)
    )
    return table(layouts, names.screen)


def _columns(
    matrix: Array, rows: Sequence[int | None], titles: Sequence[str], count: int, screen: Screen
) -> Iterator[Column]:
    """The first and last columns, `count` of them, with a gap between where they are not all."""
    digits = _digits(matrix)
    gap = screen.text("…", "dim")
    for column in _ends(matrix.shape[1], count):
        if column is None:
            yield Column(screen.sign("…"), [screen.text("…", "dim") for _ in rows])
            continue
        numbers = (
            gap if row is None else _cell(matrix[row, column], digits, screen) for row in rows
        )
        yield Column(titles[column], list(numbers))


def _ends(size: int, most: int) -> list[int | None]:
    """All indices, or the first and last ones with None between them."""
    if size <= most:
        return list(range(size))
    last = min(LAST, most // 3)
    return [*range(most - last), None, *range(size - last, size)]


def _digits(matrix: Array) -> str:
    """How the matrix's numbers are written: five digits after the point, or with an exponent."""
    sizes = np.abs(matrix[np.isfinite(matrix) & (matrix != 0)])
    plain = sizes.size == 0 or (PLAIN[0] <= float(sizes.max()) < PLAIN[1])
    return ".5f" if plain else ".4e"


def _cell(value: float, digits: str, screen: Screen) -> Text:
    if np.isnan(value):
        return Text("NaN", style=ERROR)
    if np.isinf(value):
        return screen.text("∞" if value > 0 else "−∞", "dim" if value < 0 else ERROR)
    return Text(format(value, digits))
