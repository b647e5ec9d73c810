"""The screen of `attn mask`: the picture, how much it lets through, its parts, what is odd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.text import Text

from attn_cli.core.results_mask import MaskItem, MaskPart, MaskResult, keys_per_row
from attn_cli.core.spans import spans
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.mask_picture import legend, mask_picture, per_item_rows
from attn_cli.render.terminal.prose import counted, hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table
from attn_cli.render.terminal.weights import beside

PICTURES = 6  # items and heads that are drawn
FILLS_NAMED = 3
LONGEST_PART = 48
CODE_HINT = "as code: --as sdpa, mha, flex or hf"


def mask_screen(result: MaskResult, screen: Screen) -> str:
    """The whole screen as text."""
    blocks = [[_header(result, screen)], list(_pictures(result, screen))]
    blocks += [list(_facts(result, screen)), list(_parts(result, screen))]
    blocks.append(list(findings(result.findings, _fine(result), screen)))
    lines = [line for block in blocks if block for line in (*block, Text())]
    return screen.render([*lines, screen.text(CODE_HINT, "dim")])


def _header(result: MaskResult, screen: Screen) -> Text:
    """The expression or the file, and the sizes."""
    name = result.expression or ""
    facts = []
    if result.file is not None:
        name = "standard input" if result.file.source == "-" else result.file.source
        shape = f"({', '.join(map(str, result.file.shape))})"
        facts.append(f"{result.file.name} {shape}" if result.file.name else shape)
        facts.append(f"{result.file.dtype} {_kind(result)}".strip())
    else:
        facts += [counted(result.batch, "item")] if result.batch > 1 else []
        facts += [counted(result.heads, "head")] if result.heads > 1 else []
        facts.append(counted(result.queries, "query", "queries"))
        facts.append(counted(result.keys, "key"))
        facts += [result.align] if result.align and result.queries != result.keys else []
    title = screen.text(name, "bold")
    first = title.cell_len + 2
    said = [screen.text(fact) for fact in facts]
    return Text("  ").join([title, packed(said, screen, indent=2, first=first)])


def _kind(result: MaskResult) -> str:
    assert result.file is not None
    if result.file.kind == "additive":
        called = list(result.file.fills.values())
        if len(called) > FILLS_NAMED:
            called = [f"{called[0]} to {called[-1]}"]
        return f"additive, hidden keys get {' and '.join(called)}" if called else "additive"
    return "" if result.file.kind == "bool" else "of 0 and 1"


def _pictures(result: MaskResult, screen: Screen) -> Iterator[Text]:
    """Every item and head that differs from those before it, side by side."""
    if per_item_rows(result):
        yield mask_picture(result, result.items, screen)
    else:
        groups = _alike(result.items)
        shown = groups[:PICTURES]
        pictures = []
        for group in shown:
            picture = mask_picture(result, group[:1], screen)
            title = screen.text(_names(group, result), "bold")
            pictures.append(picture if len(groups) == 1 else Text("\n").join([title, picture]))
        yield from beside(pictures, screen)
        if len(groups) == 1 and len(result.items) > 1:
            yield screen.text(f"{_everyone(result)} alike", "dim")
        if len(groups) > len(shown):
            yield screen.text(f"{len(groups) - len(shown)} more that differ: --json", "dim")
    yield Text()
    yield legend(result, screen)


def _alike(items: Sequence[MaskItem]) -> list[list[MaskItem]]:
    """Items and heads that look the same, together."""
    groups: dict[bytes, list[MaskItem]] = {}
    for item in items:
        key = item.shares.tobytes() + item.keys.astype(np.int64).tobytes()
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def _names(group: Sequence[MaskItem], result: MaskResult) -> str:
    """`item 0`, `items 0–3`, `item 0, head 1 and 3 more`."""
    first = group[0]
    if result.heads == 1:
        return f"item{'s' if len(group) > 1 else ''} {spans(item.batch for item in group)}"
    if result.batch == 1:
        return f"head{'s' if len(group) > 1 else ''} {spans(item.head for item in group)}"
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    return f"item {first.batch}, head {first.head}{more}"


def _everyone(result: MaskResult) -> str:
    items = f"all {counted(result.batch, 'item')}" if result.batch > 1 else ""
    heads = f"all {counted(result.heads, 'head')}" if result.heads > 1 else ""
    return " and ".join(part for part in (items, heads) if part)


def _facts(result: MaskResult, screen: Screen) -> Iterator[Text]:
    about = "" if result.exact else "about "
    share = result.visible / result.total
    pairs = f"{about}{result.visible:,} of {result.total:,} pairs, {_percent(share)}"
    yield _fact("lets through", pairs, screen)
    yield _fact("keys per row", _per_row(result), screen)


def _fact(name: str, words: str, screen: Screen) -> Text:
    line = Text.assemble((f"{name:<14}", "dim"), screen.text(words))
    return hanging(line, screen, indent=14)


def _percent(share: float) -> str:
    """With as many digits as tell it from 0 and from 100%."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    digits = 1
    while digits < 6 and float(f"{share:.{digits + 2}f}") in (0.0, 1.0):
        digits += 1
    return f"{share:.{digits}%}"


def _per_row(result: MaskResult) -> str:
    told = keys_per_row(result.items)
    least, most = told["min"], told["max"]
    if least == most:
        return f"{least:,} in every row" if result.exact else f"{least:,} in every row counted"
    words = f"{least:,} to {most:,}, mean {told['mean']:,.2f}"
    if len(result.items) > 1 or not result.exact:
        return words
    item = result.items[0]
    fewest, widest = (_queries(item.rows[item.keys == bound].tolist()) for bound in (least, most))
    return f"{words}: fewest for {fewest}, most for {widest}"


def _queries(rows: Sequence[int]) -> str:
    return f"{'query' if len(rows) == 1 else 'queries'} {spans(rows, shown=2)}"


def _parts(result: MaskResult, screen: Screen) -> Iterator[Text]:
    if not result.parts:
        return
    names = ["  " * part.depth + _short(part.part) for part in result.parts]
    columns = [
        Column("part", [screen.text(name) for name in names], "left"),
        Column("by itself", [_does(part, part.alone, screen) for part in result.parts], "left"),
        Column("", [_share(part, result.total) for part in result.parts]),
        Column("only it", [_does(part, part.only, screen) for part in result.parts], "left"),
    ]
    yield table([Layout(columns, 3), Layout(columns, 2)], screen)


def _short(part: str) -> str:
    return part if len(part) <= LONGEST_PART else f"{part[: LONGEST_PART - 1]}…"


def _does(part: MaskPart, pairs: int, screen: Screen) -> Text:
    if pairs == 0:
        return screen.text(f"{part.verb} nothing", "dim")
    return screen.text(f"{part.verb} {pairs:,}")


def _share(part: MaskPart, total: int) -> Text:
    return Text(_percent(part.alone / total), style="dim")


def _fine(result: MaskResult) -> list[str]:
    """What the file is, where it is that as it stands."""
    if result.file is None:
        return []
    return [
        f"{match.where + ': ' if match.where else ''}this is {match.words}"
        for match in result.file.matches
        if match.as_it_stands and match.expression != "none"  # which a finding says
    ]
