"""The ways of running a model's text: a line each, and which do not apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.results_model_ways import WayCheck
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import hanging
from attn_cli.render.terminal.table import Column, Layout, table

STYLES = {"identical": "dim", "rounding": "green", "different": ERROR}
KEY = (
    "of budget: the farthest that any stage of any layer is from the text run alone, as a share of "
    "what rounding does to it; the budget is measured by moving what the model's own modules round"
)

LEFT_OUT = (
    "; held: of the calls, layers and outputs those that have the axes of the text alone, --json "
    "names the others"
)


def way_block(checks: Sequence[WayCheck], screen: Screen) -> Iterator[Text]:
    """What was run, the verdict, how near the budget it came; then what does not apply and why."""
    done = [check for check in checks if check.verdict is not None]
    if done:
        columns = [
            Column("check", _names(done, screen), "left"),
            Column("the same text", [screen.text(check.words) for check in done], "left"),
            Column("verdict", [_verdict(check, screen) for check in done], "left"),
            Column("of budget", [_share(check, screen) for check in done]),
            Column("held", [_held(check, screen) for check in done], "left"),
        ]
        some_left_out = any(check.left_out for check in done)
        short = [column for column in columns if column.title != "held"]
        yield table([Layout(columns), Layout(columns, 2), Layout(short, 2)], screen)
        yield hanging(screen.text(KEY + LEFT_OUT * some_left_out, "dim"), screen, indent=2)
    for check in checks:
        if check.verdict is None:
            line = Text.assemble(("not held", "dim"), f"  {check.name}: {check.words}  ")
            yield hanging(line.append_text(screen.text(check.why, "dim")), screen, indent=2)


def _names(checks: Sequence[WayCheck], screen: Screen) -> list[Text]:
    """Each name once, where its ways begin."""
    names = [check.name for check in checks]
    return [
        screen.text("" if place and names[place - 1] == name else name, "bold")
        for place, name in enumerate(names)
    ]


def _verdict(check: WayCheck, screen: Screen) -> Text:
    assert check.verdict is not None
    return screen.text(check.verdict, STYLES[check.verdict])


def _share(check: WayCheck, screen: Screen) -> Text:
    if check.verdict == "identical":
        return screen.text("–", "dim")
    digits = ".2g" if check.share < 10 else ",.0f" if check.share < 1e6 else ".1e"
    return screen.text(f"{check.share:{digits}}")


def _held(check: WayCheck, screen: Screen) -> Text:
    words = f"{check.compared:,} of {check.compared + len(check.left_out):,}"
    return screen.text(words, "dim" if not check.left_out else "")
