"""Chosen heads of a model, one line each with every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from attn_cli.core.model_heads import HeadFigures
from attn_cli.core.results_model import CallFigures
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.model_layers import SUMS, WORDS, label
from attn_cli.render.terminal.numbers import NAT_IN_BITS, WARN, number, percent
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, narrowing, table

MOST = 64  # lines; --json has all
FIRST_TO_GO = (
    "nearness",
    "least Σ",
    "eff. keys",
    "top weight",
    "saturated",
    "own",
    "next",
    "distance",
)


def head_table(calls: Sequence[CallFigures], screen: Screen, *, bits: bool) -> Iterator[Text]:
    """Means over a head's rows; what a narrow screen leaves out goes in a fixed order."""
    lines = [(call, head) for call in calls for head in call.heads]
    full = _columns(lines[:MOST], screen, bits=bits)
    layouts = [Layout(full), Layout(full, 2), *narrowing(full, FIRST_TO_GO)]
    yield table(layouts, screen)
    if len(lines) > MOST:
        words = (
            f"{counted(len(lines) - MOST, 'head')} more: --layer and --head pick, --json has all"
        )
        yield hanging(screen.text(words, "dim"), screen, indent=2)


Line = tuple[CallFigures, HeadFigures]


def _columns(lines: Sequence[Line], screen: Screen, *, bits: bool) -> list[Column]:
    def figure(title: str, show: Callable[[HeadFigures], Text]) -> Column:
        return Column(title, [show(head) for _, head in lines])

    def mean(title: str, name: str, digits: int) -> Column:
        return figure(title, lambda head: number(head.means[name], digits, screen))

    def share(title: str, name: str) -> Column:
        return figure(title, lambda head: percent(head.means[name], screen))

    unit, factor = ("bit", NAT_IN_BITS) if bits else ("nat", 1.0)
    columns = [
        figure(f"entropy/{unit}", lambda h: number(h.means["entropy"] * factor, 2, screen)),
        share("of max", "normalized_entropy"),
        mean("eff. keys", "effective_keys", 1),
        mean("top weight", "max_weight", 2),
        share("on key 0", "first_key_weight"),
        share("previous", "previous_weight"),
        share("next", "next_weight"),
        share("own", "self_weight"),
        mean("distance", "mean_distance", 1),
        mean("nearness", "nearness", 2),
        figure("max score", lambda head: number(head.max_score, 1, screen)),
        *_sums(lines, screen),
        figure("saturated", lambda head: _of(head.saturated_rows, head.choice_rows)),
        *_counts(lines),
        Column("is", [_role(head, screen) for _, head in lines], "left"),
    ]
    dash = screen.sign("–")
    return [
        Column("layer", [_layer(lines, place) for place in range(len(lines))]),
        Column("head", [Text(str(head.head)) for _, head in lines]),
        *(column for column in columns if not column.says_nothing(dash)),
    ]


def _layer(lines: Sequence[Line], place: int) -> Text:
    """The layer where it changes."""
    call = lines[place][0]
    before = lines[place - 1][0] if place else None
    return Text() if before is call else Text(label(call))


def _sums(lines: Sequence[Line], screen: Screen) -> Iterator[Column]:
    if any(head.least_sum < 1 - SUMS for _, head in lines):
        yield Column("Σ weights", [number(head.means["sum"], 3, screen) for _, head in lines])
        yield Column("least Σ", [number(head.least_sum, 3, screen) for _, head in lines])


def _counts(lines: Sequence[Line]) -> Iterator[Column]:
    for title, name in (("empty", "empty_rows"), ("filled", "filled_rows")):
        counts = [int(getattr(head, name)) for _, head in lines]
        if any(counts):
            yield Column(title, [Text(f"{count:,}", WARN if count else "") for count in counts])


def _of(part: int, whole: int) -> Text:
    return Text(f"{part:,} of {whole:,}", "" if part else "dim")


def _role(head: HeadFigures, screen: Screen) -> Text:
    if head.role is None:
        return Text()
    same = f"same as head {head.same_as}" if head.role == "same" else WORDS[head.role]
    return screen.text(same)
