"""Keys: what becomes of each key's score, one column a step, down to its weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from rich.text import Text

from attn_cli.core.explanation import OTHERS, SINK, Rest, Step
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.paper.columns import GAP, Cell, column, fits, plain, trimmed
from attn_cli.render.terminal.prose import counted
from attn_cli.render.terminal.table import Column, Layout, table

LONGEST_TOKEN = 16
SCORES = ("scores", "scaled", "softcapped", "biased", "masked")
RESULT = "bold"
Entry = int | str  # a key, or the label of what is none: the sink, the others


@dataclass(frozen=True, slots=True)
class Keys:
    """One head's steps by stage, and who has a row in the table."""

    steps: Mapping[str, Step]
    item: int
    names: Names

    @property
    def screen(self) -> Screen:
        return self.names.screen

    @property
    def entries(self) -> list[Entry]:
        """The keys that are written, the sink, the others."""
        lines = self.steps["weights"].lines
        return [line.label if line.index is None else line.index for line in lines]

    @property
    def scores(self) -> list[Step]:
        """The steps before the softmax that make a number of every key."""
        return [self.steps[name] for name in SCORES if name in self.steps]

    @property
    def rest(self) -> Rest | None:
        """The other keys' exponentials."""
        return self.steps["sum"].lines[0].rest

    def label(self, entry: Entry) -> Text:
        if isinstance(entry, int):
            return Text(self.names.along("key", self.item, entry, LONGEST_TOKEN))
        if entry == OTHERS and self.rest is not None:
            return self.screen.text(counted(self.rest.count, "other key"), "dim")
        return self.screen.text(entry, "dim")

    def column(
        self,
        title: str,
        how: str,
        numbers: Mapping[Entry, Decimal],
        *,
        total: Decimal | None = None,
        style: str = "",
    ) -> Column:
        """A column with what is done to the one before it, and a number for whoever has one."""
        cells: list[Cell] = [
            (numbers[entry], style) if entry in numbers else None for entry in self.entries
        ]
        return column(title, [self.screen.text(how, "dim"), *cells, total], self.screen)


def keys(shown: Keys) -> Iterator[Text]:
    """From scores to weights in one table, or in two where one is too wide."""
    before, softmax = list(_before(shown)), list(_softmax(shown))
    entries = [Text(), *map(shown.label, shown.entries)]
    sums = [*entries, shown.screen.text("Σ", "dim")]
    if fits([_labels(sums), *before, *softmax], shown.screen):
        yield _drawn([_labels(sums), *before, *softmax], shown.screen)
        return
    short = [replace(one, cells=one.cells[:-1]) for one in before]
    yield _drawn([_labels(entries), *short], shown.screen)
    yield Text()
    again = replace(before[-1], cells=[Text(), *before[-1].cells[1:]])
    yield _drawn([_labels(sums), again, *softmax], shown.screen)


def _labels(entries: Sequence[Text]) -> Column:
    return Column("key", entries, "left")


def _drawn(columns: Sequence[Column], screen: Screen) -> Text:
    return trimmed(table([Layout(columns, GAP)], screen))


def _before(shown: Keys) -> Iterator[Column]:
    """A column for each step before the softmax; what a sum adds stands before it."""
    for step in shown.scores:
        if step.operation == "sum":
            for place, term in enumerate(step.lines[0].terms[1:], 1):
                added: dict[Entry, Decimal] = {
                    _entry(line.index): line.terms[place].a for line in step.lines
                }
                yield shown.column(term.name, "+", added)
        numbers = _numbers(step)
        sink = shown.steps["maximum"].lines[0].terms[-1]
        if step is shown.scores[-1] and sink.name == SINK:
            numbers[SINK] = sink.a
        yield shown.column(step.stage, _how(step, shown.screen), numbers)


def _softmax(shown: Keys) -> Iterator[Column]:
    top, divisor, row_sum = (
        shown.steps[name].lines[0].result for name in ("maximum", "sum", "row_sum")
    )
    sign = "+" if top.is_signed() else "−"
    less = f"{sign} {plain(top.copy_abs(), shown.screen)}"
    yield shown.column("less the largest", less, _numbers(shown.steps["shifted"]))
    powers = _numbers(shown.steps["exp"])
    if shown.rest is not None and shown.rest.value is not None:
        powers[OTHERS] = shown.rest.value
    yield shown.column("exp", "", powers, total=divisor)
    weights = _numbers(shown.steps["weights"])
    how = f"÷ {plain(divisor, shown.screen)}"
    yield shown.column("weights", how, weights, total=row_sum, style=RESULT)


def _numbers(step: Step) -> dict[Entry, Decimal]:
    return {line.label if line.index is None else line.index: line.result for line in step.lines}


def _entry(index: int | None) -> int:
    assert index is not None
    return index


def _how(step: Step, screen: Screen) -> str:
    """What is done to the column before."""
    second = step.lines[0].terms[0].b
    if step.operation == "sum" or second is None:
        return "="
    by = plain(second, screen)
    signs = {"multiply": f"× {by}", "divide": f"÷ {by}", "softcap": f"{by} · tanh(· ÷ {by})"}
    return signs.get(step.operation, "")
