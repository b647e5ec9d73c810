"""The rows of a long run as a whole: quantiles, histograms, entropy along the queries, sinks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from attn_cli.core.results import RunResult
from attn_cli.core.results_spread import Distribution, HeadSpread
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import NAT_IN_BITS, number
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, table

MOST = 16  # heads that are drawn
BARS = "▁▂▃▄▅▆▇█"
DIGITS = "12345678"  # the bars of a screen that has none
LONGEST_TOKEN = 12
WORDS = {0: "least", 50: "median", 100: "most"}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a distribution a layout shows: which quantiles, and how many bins share a bar."""

    quantiles: tuple[int, ...]
    bins: int
    gap: int = 2


DETAILS = (  # the richest first
    Detail((0, 1, 5, 25, 50, 75, 95, 99, 100), 1, gap=3),
    Detail((0, 1, 5, 25, 50, 75, 95, 99, 100), 1),
    Detail((0, 1, 25, 50, 75, 99, 100), 1),
    Detail((0, 1, 25, 50, 75, 99, 100), 2),
    Detail((0, 25, 50, 75, 100), 2),
    Detail((0, 50, 100), 3),
)


def spread(result: RunResult, names: Names, *, bits: bool) -> Iterator[Text]:
    """Entropy and distance of the rows by head, entropy along the queries, the largest sinks."""
    if result.spread is None:
        return
    screen, heads = names.screen, result.spread.heads[:MOST]
    labels = [_name(head, result) for head in heads]
    unit, factor = ("bit", NAT_IN_BITS) if bits else ("nat", 1.0)
    entropies = [head.entropy for head in heads]
    yield _distributions(f"entropy/{unit}", entropies, labels, factor, 3, screen)
    distances = [head.distance for head in heads if head.distance is not None]
    if distances:
        yield Text()
        yield _distributions("mean distance", distances, labels, 1.0, 1, screen)
    yield Text()
    yield _along(heads, labels, unit, factor, screen)
    if any(head.sinks for head in heads):
        yield Text()
        yield _sinks(heads, labels, result, names)
    left_out = len(result.spread.heads) - len(heads)
    if left_out:
        words = f"{counted(left_out, 'head')} more: --head and --item pick which, --json has all"
        yield hanging(screen.text(words, "dim"), screen, indent=2)


def _distributions(
    title: str,
    found: Sequence[Distribution],
    labels: Sequence[Text],
    factor: float,
    digits: int,
    screen: Screen,
) -> Text:
    """One line a head: quantiles, and a histogram from 0 to the largest number of all heads."""

    def layout(detail: Detail) -> Layout:
        columns = [Column(title, labels, "left")]
        for percent in detail.quantiles:
            cells = [number(one.quantiles[percent] * factor, digits, screen) for one in found]
            columns.append(Column(WORDS.get(percent, f"{percent}%"), cells))
        end = f"{found[0].edges[-1] * factor:.{digits}f}"
        merged = [_merged(one.counts, detail.bins) for one in found]
        bars = [_bars(counts, screen, blank=True) for counts in merged]
        axis = f"0{end:>{len(merged[0]) - 1}}"
        return Layout([*columns, Column(axis, bars, "left")], detail.gap)

    return table(map(layout, DETAILS), screen)


def _along(
    heads: Sequence[HeadSpread], labels: Sequence[Text], unit: str, factor: float, screen: Screen
) -> Text:
    """One line a head: the mean entropy of each stretch of queries, relative to the largest."""
    stretches = heads[0].by_position
    each = stretches[0].last - stretches[0].first + 1
    largest = max(_defined(s.entropy for head in heads for s in head.by_position), default=0.0)

    def layout(together: int, gap: int) -> Layout:
        lines = [[s.entropy for s in head.by_position] for head in heads]
        means = [_merged_means(line, together) for line in lines]
        bars = [_bars(line, screen, largest=largest) for line in means]
        last = f"{stretches[-1].last:,}"
        axis = f"query 0{last:>{max(len(means[0]) - 7, len(last) + 1)}}"
        first = [number(line[0] * factor, 3, screen) for line in means]
        end = [number(line[-1] * factor, 3, screen) for line in means]
        words = f"entropy/{unit} of {counted(each * together, 'query', 'queries')}"
        return Layout(
            [
                Column(words, labels, "left"),
                Column("first", first),
                Column(axis, bars, "left"),
                Column("last", end),
            ],
            gap,
        )

    return table((layout(*kind) for kind in ((1, 3), (1, 2), (2, 2), (4, 2))), screen)


def _sinks(
    heads: Sequence[HeadSpread], labels: Sequence[Text], result: RunResult, names: Names
) -> Text:
    """One line a head: the keys that receive most, with their share of all weight."""
    equal = 1 / result.input.keys

    def layout(count: int) -> Layout:
        columns = [Column("receives most", labels, "left")]
        for place in range(count):
            cells = [
                _sink(head, place, names) if place < len(head.sinks) else Text() for head in heads
            ]
            columns.append(Column("key: share" if place == 0 else "", cells, "left"))
        rest = [
            number(100 * (1 - sum(s.weight for s in head.sinks[:count])), 1, names.screen)
            for head in heads
        ]
        columns.append(Column("all others", [_percent(cell) for cell in rest]))
        share = Text(f"{100 * equal:.2g}%", style="dim")
        columns.append(Column("equal share", [share for _ in heads]))
        return Layout(columns, 3)

    return table((layout(count) for count in (5, 4, 3, 2, 1)), names.screen)


def _sink(head: HeadSpread, place: int, names: Names) -> Text:
    sink = head.sinks[place]
    name = f"{sink.key}:"  # an index beside a share would read as two numbers
    if names.labels is not None:
        name = names.along("key", head.batch, sink.key, LONGEST_TOKEN)
    share = f"{100 * sink.weight:.1f}%" if sink.weight >= 0.001 else f"{100 * sink.weight:.1g}%"
    return Text.assemble(name, (f" {share}", "dim"))


def _percent(cell: Text) -> Text:
    return Text(f"{cell.plain}%")


def _name(head: HeadSpread, result: RunResult) -> Text:
    item = f"item {head.batch}, " if result.input.batch > 1 else ""
    return Text(f"{item}head {head.head}")


def _merged(counts: Sequence[int], together: int) -> list[float]:
    """The counts of neighbouring bins added up."""
    return [float(sum(counts[at : at + together])) for at in range(0, len(counts), together)]


def _merged_means(values: Sequence[float], together: int) -> list[float]:
    """The means of neighbouring stretches; NaN where nothing is defined."""
    parts = (list(_defined(values[at : at + together])) for at in range(0, len(values), together))
    return [sum(part) / len(part) if part else math.nan for part in parts]


def _defined(values: Iterator[float] | Sequence[float]) -> Iterator[float]:
    return (value for value in values if math.isfinite(value))


def _bars(
    values: Sequence[float], screen: Screen, *, largest: float | None = None, blank: bool = False
) -> Text:
    """A bar a value, relative to the largest; NaN, and with `blank` 0 too, has none."""
    most = max(_defined(values), default=0.0) if largest is None else largest
    signs = BARS if screen.sign(BARS) == BARS else DIGITS
    line = ""
    for value in values:
        if math.isnan(value) or (blank and value == 0):
            line += " "
        else:
            step = math.ceil(len(signs) * value / most) if most > 0 else 1
            line += signs[min(max(step, 1), len(signs)) - 1]
    return Text(line.rstrip(), style="cyan")
