"""One boundary case in full: what goes in, its mask, what is right, what came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.text import Text

from attn_cli.core.results_edges import CaseArray, CaseDetail, EdgeOutcome, EdgesResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.findings import FINE
from attn_cli.render.terminal.numbers import ERROR, WARN
from attn_cli.render.terminal.prose import hanging, packed
from attn_cli.render.terminal.table import Column, Layout, table

MARKS = {"passed": ("✓", FINE), "failed": ("✗", ERROR), "unsupported": ("!", WARN)}
NUMBERS = 8  # of a row that is shown


def case_blocks(result: EdgesResult, screen: Screen) -> Iterator[Text]:
    """The case, its arrays, its mask, a row of what is right and of what each engine gave."""
    case, detail = result.outcomes[0], result.detail
    assert detail is not None
    yield screen.text(f"{case.kind}/{case.name}", "bold")
    yield hanging(screen.text(case.asks), screen, indent=0)
    yield Text()
    yield _arrays(detail, screen)
    yield Text()
    facts = [*detail.settings, f"computed in {case.dtype}", f"seed {result.seed}"]
    yield packed([screen.text(fact) for fact in facts], screen, indent=0)
    if detail.mask:
        yield screen.text(_mask(detail))
        yield from (screen.text(f"  {line}") for line in detail.picture)
    yield Text()
    yield _rows(result, detail, screen)
    yield Text()
    for outcome in result.outcomes:
        yield _outcome(outcome, detail, screen)


def _arrays(detail: CaseDetail, screen: Screen) -> Text:
    def cells(words: list[str]) -> list[Text]:
        return [screen.text(word) for word in words]

    columns = [
        Column("array", cells([array.name for array in detail.arrays]), "left"),
        Column("shape", cells([_shape(array) for array in detail.arrays]), "left"),
        Column("axes", cells([", ".join(array.axes) for array in detail.arrays]), "left"),
    ]
    layouts = Column("in memory", cells([array.layout for array in detail.arrays]), "left")
    if any(array.layout for array in detail.arrays):
        columns.append(layouts)
    return table([Layout(columns, gap) for gap in (3, 2)], screen)


def _mask(detail: CaseDetail) -> str:
    """How the mask is written, and of which item and head its picture is."""
    if not detail.picture:
        return f"mask {detail.mask}"
    batch, head, _ = detail.row
    return f"mask {detail.mask}, at batch {batch}, head {head} (# visible, one line a query)"


def _shape(array: CaseArray) -> str:
    return " × ".join(map(str, array.shape))


def _rows(result: EdgesResult, detail: CaseDetail, screen: Screen) -> Text:
    """One row of the output: what is right, and what each engine gave there."""
    batch, head, query = detail.row
    given = {o.engine: o.judgement.output for o in result.outcomes}
    lines = {"right": detail.expected, **given}
    names = [screen.text(name) for name, array in lines.items() if array is not None]
    rows = [array[detail.row][:NUMBERS] for array in lines.values() if array is not None]
    width = len(rows[0])
    more = detail.expected.shape[-1] - width
    title = f"output at batch {batch}, head {head}, query {query}"
    columns = [
        Column(title, names, "left"),
        *(Column(str(at), [_number(row[at], screen) for row in rows]) for at in range(width)),
    ]
    if more:
        columns.append(Column(screen.sign("…"), [Text(f"{more} more")] * len(rows), "left"))
    return table([Layout(columns, gap) for gap in (3, 2, 1)], screen)


def _number(value: float, screen: Screen) -> Text:
    if np.isnan(value):
        return Text("NaN", style=ERROR)
    return screen.text(f"{value:.6g}".replace("-", "−"))


def _outcome(outcome: EdgeOutcome, detail: CaseDetail, screen: Screen) -> Text:
    sign, style = MARKS[outcome.verdict]
    words = {
        "passed": f"{outcome.engine}: passed, held against {detail.right}",
        "failed": f"{outcome.engine}: failed against {detail.right}: {outcome.message}",
        "unsupported": f"{outcome.engine}: not supported: {outcome.message}",
    }[outcome.verdict]
    text = Text(" ").join([screen.text(sign, style), screen.text(words)])
    return hanging(text, screen, indent=2)
