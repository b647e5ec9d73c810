"""The masks that a model really used: one line for the layers that share one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_model import ModelMask
from attn_cli.core.spans import spans
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.shapes import folded
from attn_cli.render.terminal.table import Column, Layout, table


def mask_table(masks: Sequence[ModelMask], screen: Screen) -> Iterator[Text]:
    """Which layers, what the mask is, how it came, and how many keys a row sees."""
    several = len({stack for mask in masks for stack, _ in mask.where}) > 1
    columns = [
        Column("layers", [screen.text(layers(mask, several=several)) for mask in masks], "left"),
        Column("mask", [screen.text(mask.words) for mask in masks], "left"),
        Column("given as", [screen.text(given(mask)) for mask in masks], "left"),
        Column("keys a row", [screen.text(_keys(mask)) for mask in masks], "left"),
    ]
    narrow = Layout(_folded(columns, screen.width), 2)
    yield table([Layout(columns), Layout(columns, 2), narrow], screen)


def _folded(columns: Sequence[Column], width: int) -> list[Column]:
    """How it was given broken into lines: it is the longest."""
    order = [columns[0], columns[2], columns[1], columns[3]]
    first, given_as, mask, keys = folded(order, width, gap=2)
    return [first, mask, given_as, keys]


def layers(mask: ModelMask, *, several: bool) -> str:
    """`0–5`, or where a model has several towers `encoder 0–5, decoder 0–5`."""
    by_stack: dict[str, list[int]] = {}
    for stack, layer in mask.where:
        by_stack.setdefault(stack, []).append(layer)
    parts = []
    for stack, numbers in by_stack.items():
        words = spans(sorted(set(numbers)))
        parts.append(f"{stack} {words}" if several and stack else words)
    return ", ".join(parts)


def given(mask: ModelMask) -> str:
    """`bool, True = may attend, (2, 1, 13, 13)`."""
    shape = f"({', '.join(map(str, mask.shape))})"
    window = f", sliding_window={mask.window}" if mask.window is not None else ""
    return {
        "bool": f"bool, True = may attend, {shape}",
        "additive": f"added, {mask.dtype}{_fill(mask)}, {shape}",
        "is_causal": "is_causal, no mask",
        "none": "no mask",
        "recovered": f"found in the masked scores{_fill(mask)}",
    }[mask.kind] + window


def _fill(mask: ModelMask) -> str:
    return f", hidden keys get {mask.fill}" if mask.fill else ""


def _keys(mask: ModelMask) -> str:
    least, most = mask.keys_per_row
    span = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{span} of {mask.keys:,}"
