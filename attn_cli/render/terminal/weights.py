"""The weights of each head: a table of numbers, or a heat map of blocks, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.text import Text

from attn_cli.core.results import RunResult, WeightsView
from attn_cli.render.terminal.blocks import block_map, block_sizes, largest_block, legend
from attn_cli.render.terminal.cells import cell_table, whole_tables
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.prose import counted, hanging

GAP = 4  # between heads side by side


def weights(result: RunResult, names: Names) -> Iterator[Text]:
    """Every head's picture, as many abreast as the width allows; what is left out, counted."""
    yield from beside(_pictures(result, names), names.screen)
    if any(view.blocks for view in result.views):
        yield legend(result.views, names.screen)
    if result.views_left_out:
        left_out = counted(result.views_left_out, "head")
        words = f"{left_out} more: --head and --item pick which to show"
        yield hanging(names.screen.text(words, "dim"), names.screen, indent=2)


def beside(pictures: Sequence[Text], screen: Screen) -> Iterator[Text]:
    """Pictures in rows of as many as the width holds, an empty line between the rows."""
    widest = max(map(_width, pictures), default=0)
    abreast = max(1, (screen.width + GAP) // (widest + GAP))
    for start in range(0, len(pictures), abreast):
        if start:
            yield Text()
        lines = [picture.split("\n") for picture in pictures[start : start + abreast]]
        for parts in zip_longest(*lines, fillvalue=Text()):
            yield _abreast(parts, widest + GAP)


def _abreast(parts: Sequence[Text], width: int) -> Text:
    """One line of pictures that begin every `width` columns."""
    line = Text()
    for place, part in enumerate(parts):
        if part.plain:
            line.append(" " * (place * width - line.cell_len)).append_text(part)
    return line


def _pictures(result: RunResult, names: Names) -> list[Text]:
    """Whole tables where two or more of them stand abreast; else each as full as it can be."""
    half = (names.screen.width - GAP) // 2
    if not any(view.blocks for view in result.views):
        whole = whole_tables(result.views, result.sum_tolerance, names, half)
        if whole is not None:
            return [_titled(v, "", t, result) for v, t in zip(result.views, whole, strict=True)]
    return [_picture(view, result, names) for view in result.views]


def _picture(view: WeightsView, result: RunResult, names: Names) -> Text:
    table = None if view.blocks else cell_table(view, result.sum_tolerance, names)
    if table is not None:
        return _titled(view, *table, result)
    blocks = block_map(view, largest_block(result.views), names)
    return _titled(view, names.screen.sign(block_sizes(view)), blocks, result)


def _titled(view: WeightsView, remark: str, picture: Text, result: RunResult) -> Text:
    head = f"head {view.head}"
    where = f"item {view.batch}, {head}" if result.input.batch > 1 else head
    return Text.assemble((where, "bold"), (remark, "dim"), "\n", picture)


def _width(picture: Text) -> int:
    return max(cell_len(line) for line in picture.plain.split("\n"))
