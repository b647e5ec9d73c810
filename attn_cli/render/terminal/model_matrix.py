"""The head matrix of a model: layers down, heads across, a figure as shaded cells with its role."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from attn_cli.core.model_heads import MEANS, OTHERS, ROLES, HeadFigures
from attn_cli.core.results_model import CallFigures
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.model_layers import WORDS, label
from attn_cli.render.terminal.numbers import ERROR
from attn_cli.render.terminal.prose import hanging, packed
from attn_cli.render.terminal.shade import BLOCKS, weight_style

ON_KEYS = ("first_key_weight", "previous_weight", "next_weight", "self_weight", "max_weight")
SHARES = frozenset((*ON_KEYS, "normalized_entropy", "sum", "least_sum"))
GAP = 2  # between the layer and its cells


@dataclass(frozen=True, slots=True)
class Cells:
    """How a head is drawn: `width` cells, of them `digits` for its number; 0: a shade alone."""

    width: int
    digits: int = 0

    @property
    def numbers(self) -> bool:
        return self.digits > 0


def head_matrix(calls: Sequence[CallFigures], figure: str, screen: Screen) -> Iterator[Text]:
    """One figure of every head, as full as the width allows; wide models in several bands."""
    most = max(len(call.heads) for call in calls)
    margin = max(len("layer"), *(len(label(call)) for call in calls)) + GAP
    form = _form(calls, figure, screen.width - margin, screen)
    across = most if not screen.cuts else max(1, (screen.width - margin) // form.width)
    yield _title(calls, figure, form, screen)
    largest = _largest(calls, figure)
    for start in range(0, most, across):
        band = range(start, min(start + across, most))
        yield _heading(band, margin, form)
        for call in calls:
            yield _line(call, band, margin, form, figure, largest, screen)


def legend(calls: Sequence[CallFigures], screen: Screen) -> Iterator[Text]:
    """What the letters mean that occur."""
    there = {head.role for call in calls for head in call.heads}
    parts = [
        Text.assemble((ROLES[role][0], "bold"), (f" {WORDS[role]}", "dim"))
        for role in ROLES
        if role in there
    ]
    if parts:
        yield packed(parts, screen, indent=2)


def _form(calls: Sequence[CallFigures], figure: str, room: int, screen: Screen) -> Cells:
    """The fullest that fits, with a number that is never cut; the barest where none does."""
    most = max(len(call.heads) for call in calls)
    numbers = [head.figure(figure) for call in calls for head in call.heads]
    digits = max([2, *(len(_short(n, figure)) for n in numbers if math.isfinite(n))])
    forms = (Cells(digits + 2, digits), Cells(digits + 1, digits), Cells(2), Cells(1))
    fitting = (form for form in forms if not screen.cuts or most * form.width <= room)
    return next(fitting, forms[-1])


def _title(calls: Sequence[CallFigures], figure: str, form: Cells, screen: Screen) -> Text:
    words = {**MEANS, **OTHERS}[figure]
    unit = ", in %" if figure in SHARES and form.numbers else ""
    largest = _largest(calls, figure)
    shade = "" if form.numbers else f"; full shade at {largest:.3g}"
    return hanging(
        Text.assemble((figure, "bold"), screen.text(f"  {words}{unit}{shade}", "dim")),
        screen,
        indent=2,
    )


def _largest(calls: Sequence[CallFigures], figure: str) -> float:
    if figure in SHARES:
        return 1.0
    values = [head.figure(figure) for call in calls for head in call.heads]
    return max((v for v in values if math.isfinite(v)), default=1.0)


def _heading(band: range, margin: int, form: Cells) -> Text:
    """Head numbers over their columns, as many as there is room for."""
    line, width = f"{'layer':<{margin}}", margin + len(band) * form.width
    for head in band:
        number = str(head)
        end = margin + (head - band.start) * form.width + (form.digits or len(number))
        apart = end - len(number) >= len(line) + (not form.numbers)
        if (apart or head == band.start) and end <= width:
            line += " " * (end - len(number) - len(line)) + number
    return Text(line, style="dim")


def _line(
    call: CallFigures,
    band: range,
    margin: int,
    form: Cells,
    figure: str,
    largest: float,
    screen: Screen,
) -> Text:
    line = Text(f"{label(call):>{margin - GAP}}{' ' * GAP}", style="dim")
    for head in call.heads[band.start : band.stop]:
        line.append_text(_cell(head, form, figure, largest, screen))
    line.rstrip()
    return line


def _cell(head: HeadFigures, form: Cells, figure: str, largest: float, screen: Screen) -> Text:
    number = head.figure(figure)
    letter = " " if head.role is None else ROLES[head.role][0]
    if not math.isfinite(number):
        lost = head.rows > head.empty_rows and math.isnan(head.means["sum"])
        dash = "!" if lost else screen.sign("–")
        body = f"{dash:>{max(form.digits, 1)}}"
        return Text(f"{body:<{form.width}}", style=ERROR if lost else "dim")
    share = min(max(number / largest, 0.0), 1.0) if largest > 0 else 0.0
    style = weight_style(share, screen.shades)
    if form.numbers:
        body = f"{_short(number, figure):>{form.digits}}{letter}"
        return Text(body, style=style).append(" " * (form.width - len(body)))
    if screen.shades:
        return Text(f"{letter}{' ' * (form.width - 1)}", style=style)
    block = screen.sign(BLOCKS[min(3, int(share * 4))]) if share >= 0.05 else screen.sign("·")
    if form.width == 1:
        return Text(block if letter == " " else letter, style=Style())
    return Text(f"{block}{letter}"[: form.width], style=Style())


def _short(number: float, figure: str) -> str:
    """A share in percent; another number in three cells, or as many as it needs."""
    if figure in SHARES:
        return f"{100 * number:.0f}"
    size = abs(number)
    if size >= 10 or number == 0:
        return f"{number:.0f}"
    return f"{number:.1f}"
