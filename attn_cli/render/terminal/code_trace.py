"""The trace of somebody's code: a row a line, what it gives, how that lies, what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from rich.text import Text

from attn_cli.core.code_trace import STAGE_WORDS, CodeTrace, Operation, Parting, TracedLine
from attn_cli.render.terminal.console import UNBOUNDED, Screen
from attn_cli.render.terminal.findings import FINE
from attn_cli.render.terminal.numbers import WARN
from attn_cli.render.terminal.prose import hanging
from attn_cli.render.terminal.table import Column, Layout, table

WIDEST_SOURCE = 64  # cells; longer lines lose their middle
LEAST_SOURCES = (40, 34, 28, 16, 0)  # below these the next column is left out
NARROWEST_SOURCE = 16
STRIDED, COPIED = "strided", "copied"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a line with its last result, or (no `number`) an expression within it."""

    number: str
    runs: int
    source: str
    shown: Operation | None
    label: str | None
    stage: bool
    should_be: str | None
    blamed: bool
    word: str = "raises"


def code_trace(trace: CodeTrace, screen: Screen, *, every: bool = False) -> Iterator[Text]:
    """The table, what its words mean, and the line that parts; nothing where no line was seen.

    `every` shows all expressions of a line, not only those that are something by themselves.
    """
    rows = list(_rows(trace, every=every))
    if rows:
        yield _table(rows, screen)
        yield from _legend(rows, screen)
    for note in trace.notes:
        yield hanging(screen.text(f"· {note}", "dim"), screen, indent=2)
    yield from _verdict(trace, screen)


def parting_words(parting: Parting) -> str:
    """What the line does that parts: "should give weights", "raises"."""
    if parting.stage is None:
        return parting.why
    verb = "gives" if parting.why == "precision" else "should give"
    return f"{verb} {STAGE_WORDS[parting.stage]}"


def _rows(trace: CodeTrace, *, every: bool) -> Iterator[Row]:
    files = {line.file for line in trace.lines}
    blamed = trace.first_parting
    for line in trace.lines:
        name = f"{PurePath(line.file).name}:" if len(files) > 1 else ""
        result = _result(line)
        mine = blamed is not None and (line.file, line.line) == (blamed.file, blamed.line)
        inner = [one for one in line.operations if _stands_alone(one, line) or every]
        below = every or any(one.should_be for one in inner if one is not result)
        yield Row(
            number=f"{name}{line.line}",
            runs=line.count,
            source=line.source,
            shown=result,
            label=line.label,
            stage=line.stage is not None,
            should_be=None if below and _inner(inner, result) else line.should_be,
            blamed=mine,
            word="stops" if blamed is not None and blamed.why == "stops" else "raises",
        )
        for one in inner:
            if one is not result or (every and len(line.operations) > 1):
                yield _within(one, blamed if mine else None)


def _inner(inner: Sequence[Operation], result: Operation | None) -> bool:
    """Whether the stage that should be there is told of an expression within the line."""
    return any(one.should_be for one in inner if one is not result)


def _within(one: Operation, blamed: Parting | None) -> Row:
    mine = blamed is not None and (one.should_be == blamed.stage is not None or one.raised)
    return Row("", 1, f"  {one.source}", one, one.label, bool(one.stages), one.should_be, mine)


def _result(line: TracedLine) -> Operation | None:
    """The last expression that no other one of its statement uses, else the last one."""
    results = [one for one in line.operations if one.outer] or line.operations[-1:]
    return results[-1] if results else None


def _stands_alone(one: Operation, line: TracedLine) -> bool:
    """Whether an expression within a line says something that the line itself does not."""
    if one is _result(line):
        return False
    known = set((line.label or "").split(", "))
    for earlier in line.operations[: line.operations.index(one)]:
        known |= set((earlier.label or "").split(", "))
    new = one.label is not None and not set(one.label.split(", ")) <= known
    return new or one.should_be is not None or one.raised


def _table(rows: Sequence[Row], screen: Screen) -> Text:
    most = max(len(row.number) for row in rows)
    line = Column("line", [_number(row, most, screen) for row in rows], "left")
    runs = Column("runs", [_runs(row, screen) for row in rows])
    gives = Column("gives", [_shape(row.shown, screen) for row in rows], "left")
    axes = Column("axes", [_axes(row.shown, screen) for row in rows], "left")
    strides = Column("strides", [_memory(row.shown, screen, numbers=True) for row in rows], "left")
    marks = Column("memory", [_memory(row.shown, screen, numbers=False) for row in rows], "left")
    is_ = Column("", [_label(row, screen) for row in rows], "left")
    first = [line, runs] if any(row.runs > 1 for row in rows) else [line]
    choices = [
        [gives, axes, strides, is_],
        [gives, strides, is_],
        [gives, marks, is_],
        [gives, is_],
        [is_],
    ]
    kept = [[c for c in others if any(cell.plain for cell in c.cells)] for others in choices]
    layouts = [_with_source(rows, first, others, screen) for others in kept]
    if not screen.cuts:  # sources are whole; the names of the axes stand where there is room
        return table(layouts[:1] if layouts[0].width <= screen.width else layouts[1:2], screen)
    fitting = [
        layout
        for layout, least in zip(layouts, LEAST_SOURCES, strict=True)
        if layout.columns[len(first)].width >= min(least, _longest(rows))
    ]
    return table(fitting or layouts[-1:], screen)


def _with_source(
    rows: Sequence[Row], first: Sequence[Column], others: Sequence[Column], screen: Screen
) -> Layout:
    """The columns with the source between them: whole in a pipe, else as there is room."""
    taken = sum(column.width + 2 for column in (*first, *others))
    room = max(NARROWEST_SOURCE, min(WIDEST_SOURCE, screen.width - taken))
    cells = [_source(row, room if screen.cuts else UNBOUNDED, screen) for row in rows]
    return Layout([*first, Column("source", cells, "left"), *others], gap=2)


def _longest(rows: Sequence[Row]) -> int:
    return max(len(row.source) for row in rows)


def _number(row: Row, most: int, screen: Screen) -> Text:
    """The line's number behind the mark of the one that parts."""
    number = row.number.rjust(most)
    if row.blamed and row.number:
        return screen.text(f"! {number}", WARN)
    return screen.text(f"  {number}") if row.number else Text()


def _runs(row: Row, screen: Screen) -> Text:
    return Text(f"{row.runs:,}{screen.sign('×')}" if row.runs > 1 else "", "dim")


def _source(row: Row, most: int, screen: Screen) -> Text:
    words = screen.text(row.source).plain
    return Text(screen.shortened(words, most), "bold" if row.blamed and row.number else "dim")


def _shape(one: Operation | None, screen: Screen) -> Text:
    if one is None or one.layout is None:
        return Text()
    if not one.shape:
        return Text("number", "dim")
    sizes = screen.sign("×").join(map(str, one.shape))
    return Text(f"{one.parts} of {sizes}" if one.parts > 1 else sizes)


def _axes(one: Operation | None, screen: Screen) -> Text:
    if one is None or not one.axes:
        return Text()
    return screen.text(" ".join(axis.replace(" ", "_") or "1" for axis in one.axes), "dim")


def _memory(one: Operation | None, screen: Screen, *, numbers: bool) -> Text:
    """Its strides where there is more to say than that it lies in order, and what was done."""
    if one is None:
        return Text()
    laid = one.before if one.raised else one.layout
    if laid is None or laid.strides is None:
        return Text()
    parts = []
    if numbers and len(laid.strides) > 1:
        strides = " ".join(map(str, laid.strides))
        parts.append(Text(strides, "" if not laid.contiguous or one.copied else "dim"))
    if not laid.contiguous:
        parts.append(Text(STRIDED, "yellow"))
    if one.copied:
        parts.append(Text(COPIED, "cyan"))
    return Text(" ").join(parts)


def _label(row: Row, screen: Screen) -> Text:
    if row.blamed if row.shown is None else row.shown.raised:
        return screen.text(f"! {row.word}", WARN)
    if row.should_be is not None:
        words = f"should be {STAGE_WORDS[row.should_be]}"
        if row.blamed:
            return screen.text(f"! {words}", WARN)
        return screen.text(f"≠ {STAGE_WORDS[row.should_be]}", "dim")
    if row.label is None:
        return Text()
    return Text.assemble(("= ", "dim"), screen.text(row.label, "bold" if row.stage else ""))


def _legend(rows: Sequence[Row], screen: Screen) -> Iterator[Text]:
    """What the words of the table mean, those that are in it."""
    words = []
    said = [_memory(row.shown, screen, numbers=False).plain for row in rows]
    if any(STRIDED in text for text in said):
        words.append(f"{STRIDED}: memory is not in the order of the axes")
    if any(COPIED in text for text in said):
        words.append(f"{COPIED}: the numbers were moved into a new array")
    if words:
        yield hanging(screen.text("; ".join(words), "dim"), screen, indent=0)


def _verdict(trace: CodeTrace, screen: Screen) -> Iterator[Text]:
    parting = trace.first_parting
    if parting is not None:
        what = parting_words(parting)
        words = screen.text(f"! line {parting.line} {what}: {parting.detail}")
        words.stylize(WARN, 0, 1)
        words.stylize("bold", 2, 2 + len(f"line {parting.line} {what}"))
        yield Text()
        yield hanging(words, screen, indent=2)
    elif trace.trouble is not None:
        yield Text()
        yield hanging(screen.text(f"! {trace.trouble}", WARN), screen, indent=2)
    elif trace.output_agrees:
        count = sum(line.stage is not None for line in trace.lines)
        words = Text.assemble((screen.sign("✓"), FINE), " the output is the reference's")
        if count:
            words.append(f"; {count} of {len(trace.lines)} lines are stages of it")
        yield Text()
        yield words
    elif trace.output_agrees is False:
        yield Text()
        words = screen.text("! the output is not the reference's, and no line can be blamed", WARN)
        yield hanging(words, screen, indent=2)
