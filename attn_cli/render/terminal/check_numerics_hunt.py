"""The hunt for NaN on the screen: every stage in order, and what made the first bad number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results_numerics import Attempt, Culprit, Gradients, Hunt, StageCount, Term
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import hanging
from attn_cli.render.terminal.table import Column, Layout, table

INDENT = 7


def hunt_block(hunt: Hunt, gradients: Gradients, screen: Screen) -> Iterator[Text]:
    """One line where everything is finite, else a table of the stages and the culprit."""
    if hunt.first is None and not any(stage.hidden for stage in hunt.stages):
        arrow = f" {screen.sign('→')} "
        names = [stage.stage for stage in hunt.stages]
        names += ["gradients"] if gradients.first is None else []
        words = f"{hunt.dtype}, all finite: {arrow.join(names)}"
        yield hanging(screen.text(words), screen, indent=2)
        return
    yield _stages(hunt, screen)
    if hunt.culprit is not None:
        yield Text()
        yield from _culprit(hunt.culprit, hunt.dtype, screen)


def _stages(hunt: Hunt, screen: Screen) -> Text:
    """Every stage with what of it is not finite; the first is marked."""
    first, stages = hunt.first, hunt.stages
    columns = [
        Column("stage", [_name(stage, stage is first, screen) for stage in stages], "left"),
        Column("NaN", [_count(stage.nan) for stage in stages]),
        Column("inf", [_count(stage.inf) for stage in stages]),
        Column("of", [Text(f"{stage.total:,}") for stage in stages]),
    ]
    if any(stage.hidden for stage in stages):
        columns.append(Column("hidden", [_count(stage.hidden, "") for stage in stages]))
    wide = [
        *columns,
        Column("the first at", [screen.text(stage.words) for stage in stages], "left"),
    ]
    return table([Layout(wide, 3), Layout(wide, 2), Layout(columns, 2)], screen)


def _name(stage: StageCount, first: bool, screen: Screen) -> Text:
    if not first:
        return screen.text(stage.stage, "" if stage.bad else "dim")
    return screen.text(f"{stage.stage} {screen.sign('✗')}", ERROR)


def _count(number: int, style: str = ERROR) -> Text:
    return Text(f"{number:,}", style=style) if number else Text("0", style="dim")


def _culprit(culprit: Culprit, dtype: str, screen: Screen) -> Iterator[Text]:
    if not math.isnan(culprit.limit) and culprit.where:
        yield _line("where", _where(culprit, dtype, screen), screen)
    if culprit.terms:
        yield _products(culprit, screen)
    for name, value in culprit.operands:
        yield _line("", f"{name} {_number(value, screen)}", screen)
    for place, attempt in enumerate(culprit.attempts):
        yield _line("tried" if not place else "", _tried(attempt, culprit.stage, screen), screen)


def _where(culprit: Culprit, dtype: str, screen: Screen) -> str:
    words = f"{culprit.stage}, {culprit.where}: {_number(culprit.value, screen)} in {dtype}"
    if not math.isnan(culprit.exact) and culprit.exact != culprit.value:
        words += f", {_number(culprit.exact, screen)} in float64"
    return f"{words}; {dtype} ends at {_number(culprit.limit, screen)}"


def _line(title: str, words: str, screen: Screen) -> Text:
    line = Text.assemble((f"{title:<{INDENT}}", "dim"), screen.text(words))
    return hanging(line, screen, indent=INDENT)


def _products(culprit: Culprit, screen: Screen) -> Text:
    """The products of the sum, up to the one with which it passes the limit."""
    terms = culprit.terms
    cells = [_term(term, term.index == culprit.passed, screen) for term in terms]
    titles = ("", f"of {culprit.terms_total:,}", *_factors(culprit.stage), "product", "sum so far")
    columns = [
        Column(screen.text(title).plain, [cell[place] for cell in cells])
        for place, title in enumerate(titles)
    ]
    return table([Layout(columns, 3), Layout(columns, 2)], screen)


def _factors(stage: str) -> tuple[str, str]:
    """What the two factors of a product are called."""
    if stage == "scores":
        return "q", "k"
    if stage == "context":
        return "weight", "v"
    return ("merged", "W_o") if stage == "output" else ("x", f"W_{stage}")


def _term(term: Term, passes: bool, screen: Screen) -> tuple[Text, ...]:
    style = ERROR if passes else ""
    numbers = (term.left, term.right, term.product, term.partial)
    return (
        Text(" " * (INDENT - 3)),
        Text(str(term.index), style=style or "dim"),
        *(screen.text(_number(number, screen), style) for number in numbers),
    )


def _number(value: float, screen: Screen) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return screen.sign("∞" if value > 0 else "−∞")
    return f"{value:,.6g}" if abs(value) < 1e7 else f"{value:.6g}"


def _tried(attempt: Attempt, stage: str, screen: Screen) -> str:
    if attempt.first is None:
        largest = _number(attempt.largest, screen)
        at = "" if math.isnan(attempt.largest) else f", largest |{stage}| {largest}"
        return f"{attempt.what}: every stage is finite{at}"
    if attempt.first == stage:
        return f"{attempt.what}: {attempt.bad:,} of {stage} still not finite"
    return f"{attempt.what}: {attempt.first} is then the first stage that is not finite"
