"""The screen of `attn mask --fills`: what fill values do to a visible and to an empty row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from attn_cli.core.results_fills import EmptyRowCase, FillCase, FillsResult, RowKind
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.table import Column, Layout, table

GOOD = "green"
SHORT = {"F.scaled_dot_product_attention": "SDPA", "nn.MultiheadAttention": "MultiheadAttention"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an outcome is shown, and what it means."""

    word: str
    style: str
    meaning: str


OUTCOMES = {
    "masked softmax": Outcome("right", GOOD, "the hidden key gets 0, the others sum to 1"),
    "zeros": Outcome("zeros", GOOD, "every weight is 0, and so is the output"),
    "uniform": Outcome("uniform", WARN, "every key alike, hidden ones included"),
    "unmasked softmax": Outcome("unmasked", WARN, "as without a mask: the constant cancels"),
    "NaN": Outcome("NaN", ERROR, "0 ÷ 0, and so is the output"),
    "does not fit": Outcome("does not fit", ERROR, "masked_fill raises: no such number"),
    "raises": Outcome("raises", ERROR, "the call is refused"),
    "other": Outcome("other", WARN, "none of these"),
}
Case = FillCase | EmptyRowCase


def fills_screen(result: FillsResult, screen: Screen) -> str:
    """The whole screen as text."""
    title = screen.text("fill values", "bold")
    scores = ", ".join(f"{score:g}" for score in result.scores).replace("-", "−")
    said = screen.text(f"measured with torch {result.torch} on scores {scores}", "dim")
    blocks = [Text("  ").join([title, said])]
    for row, words in (
        ("visible", "a row with one hidden key"),
        ("empty", "a row with none visible"),
    ):
        blocks += [Text(), screen.text(words, "bold"), _of_row(result, row, screen)]  # type: ignore[arg-type]
    blocks += [Text(), screen.text("a row with none visible, by function", "bold")]
    blocks += [_of_functions(result, screen), Text(), *_meanings(result, screen)]
    return screen.render(blocks)


def _of_row(result: FillsResult, row: RowKind, screen: Screen) -> Text:
    cases = [case for case in result.fills if case.row == row]
    return _table(cases, lambda case: (_signed(case.fill_name), case.how), ("fill", "how"), screen)


def _of_functions(result: FillsResult, screen: Screen) -> Text:
    cases = result.empty_rows
    return _table(
        cases, lambda case: (case.function, _signed(case.mask)), ("function", "mask"), screen
    )


def _table(
    cases: Sequence[Case],
    name: Callable[..., tuple[str, str]],
    titles: tuple[str, str],
    screen: Screen,
) -> Text:
    """One line a name, one column a dtype."""
    order = list(dict.fromkeys(name(case)[0] for case in cases))
    names = sorted(dict.fromkeys(map(name, cases)), key=lambda pair: order.index(pair[0]))
    found = {(name(case), case.dtype): case for case in cases}
    firsts = [
        "" if place and names[place - 1][0] == first else first
        for place, (first, _) in enumerate(names)
    ]
    others = [Column(titles[1], [screen.text(second) for _, second in names], "left")]
    others += [
        Column(dtype, [_outcome(found[pair, dtype], screen) for pair in names], "left")
        for dtype in dict.fromkeys(case.dtype for case in cases)
    ]
    full = Column(titles[0], [screen.text(first) for first in firsts], "left")
    short = Column(titles[0], [screen.text(SHORT.get(first, first)) for first in firsts], "left")
    gaps = ((full, 3), (full, 2), (short, 2), (short, 1))
    return table([Layout([first, *others], gap) for first, gap in gaps], screen)


def _outcome(case: Case, screen: Screen) -> Text:
    outcome = OUTCOMES[case.outcome]
    return screen.text(outcome.word, outcome.style)


def _signed(name: str) -> str:
    return name.replace("-inf", "−∞").replace("-", "−")


def _meanings(result: FillsResult, screen: Screen) -> Iterator[Text]:
    """Every outcome that was met, with the weights of one that had it."""
    met: dict[str, Case] = {}
    cases: list[Case] = [*result.fills, *result.empty_rows]
    for case in cases:
        met.setdefault(case.outcome, case)
    shown = [(OUTCOMES[name], _weights(met[name])) for name in OUTCOMES if name in met]
    columns = [
        Column(
            "outcome", [screen.text(outcome.word, outcome.style) for outcome, _ in shown], "left"
        ),
        Column("weights, for example", [screen.text(weights) for _, weights in shown], "left"),
        Column("", [screen.text(outcome.meaning, "dim") for outcome, _ in shown], "left"),
    ]
    yield table([Layout(columns, gap) for gap in (3, 2)], screen)


def _weights(case: Case) -> str:
    return " ".join("NaN" if math.isnan(w) else f"{w:.3f}" for w in case.weights) or "none"
