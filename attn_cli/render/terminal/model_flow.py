"""The flow of a model: from which tokens to which, and the heads that carry most of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from attn_cli.core.model_flow import Flow, FlowHead, TokenPlace
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import number
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, table

LINES = 12  # heads; --json has all
TOKENS = 24  # of a side
LONGEST = 16  # cells of one token
KEY = "all that can be seen alike"


def flow_block(flow: Flow, screen: Screen) -> Iterator[Text]:
    """What two sides of the input have to do with each other."""
    yield _title("flow", flow.asked, screen)
    yield token_line("from", flow.queries, screen)
    yield token_line("to", flow.keys, screen)
    yield Text()
    yield from _heads(flow, screen)


def sensitive_block(flow: Flow, screen: Screen) -> Iterator[Text]:
    """Who looks at the marked tokens; all other tokens are the queries."""
    where = "in each token" if flow.matched == "token" else "in the text"
    yield _title("sensitive", f"/{flow.asked}/ {where}", screen)
    yield token_line("marked", flow.keys, screen)
    many = counted(len(flow.queries), "other token")
    yield screen.text(f"  looked at by the {many}", "dim")
    yield Text()
    yield from _heads(flow, screen)


def token_line(side: str, tokens: Sequence[TokenPlace], screen: Screen) -> Text:
    """The tokens of one side with their positions, the first ones where there are many."""
    line = Text.assemble((f"  {side} ", "dim"), f"{counted(len(tokens), 'token')}: ")
    item = 0  # a batch item is named where it is another than the first
    for place, token in enumerate(tokens[:TOKENS]):
        line.append(" " if place else "")
        if token.item != item:
            item = token.item
            line.append(f"in item {item} ", "dim")
        line.append(f"{token.position}{':' if token.token else ''}", "dim")
        line.append(screen.token(token.token, LONGEST))
    if len(tokens) > TOKENS:
        line.append(f" and {len(tokens) - TOKENS:,} more")
    return hanging(line, screen, indent=4)


def _title(name: str, words: str, screen: Screen) -> Text:
    return hanging(Text("  ").join([Text(name, "bold"), screen.text(words)]), screen, indent=2)


def _heads(flow: Flow, screen: Screen) -> Iterator[Text]:
    shown = flow.heads[:LINES]
    full = _columns(shown, screen)
    yield table([Layout(full), Layout(full, 2)], screen)
    if len(flow.heads) > LINES:
        more = counted(len(flow.heads) - LINES, "weaker head")
        yield screen.text(f"  {more}: --json has all", "dim")
    words = (
        "weight: what a query gives to all of these keys, on average; largest: to one of them; "
        f"by chance: if it looked at {KEY}"
    )
    yield hanging(screen.text(words, "dim"), screen, indent=2)


def _columns(heads: Sequence[FlowHead], screen: Screen) -> list[Column]:
    def figure(title: str, show: Callable[[FlowHead], Text]) -> Column:
        return Column(title, [show(head) for head in heads])

    columns = [
        figure("layer", lambda head: Text(str(head.layer))),
        figure("head", lambda head: Text(str(head.head))),
        figure("weight", lambda head: number(head.weight, 3, screen)),
        figure("largest", lambda head: number(head.largest, 3, screen)),
        figure("by chance", lambda head: number(head.chance, 3, screen)),
    ]
    if len({head.stack for head in heads}) > 1:
        columns.insert(0, Column("tower", [screen.text(head.stack) for head in heads], "left"))
    return columns
