"""The layer table of a model: one line an attention call, means over its heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from attn_cli.core.model_heads import Role
from attn_cli.core.results_model import CallFigures
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import NAT_IN_BITS, WARN, number, percent
from attn_cli.render.terminal.table import Column, Layout, narrowing, table

WORDS: dict[Role, str] = {
    "uniform": "uniform",
    "same": "same as another",
    "previous": "previous token",
    "next": "next token",
    "self": "own token",
    "sink": "sink",
    "local": "local",
}
SHORT = {"previous": "prev", "distance": "far", "on key 0": "key 0", "saturated": "satur."}
FIRST_TO_GO = ("eff. keys", "own", "next", "prev", "far", "satur.", "heads that are")
SUMS = 1e-3  # a mean sum this near to 1 is 1


def layer_table(calls: Sequence[CallFigures], screen: Screen, *, bits: bool) -> Iterator[Text]:
    """Entropy in nats or bits beside what makes it readable; columns that say nothing left out."""
    full = _columns(calls, screen, bits=bits, short=False)
    short = _columns(calls, screen, bits=bits, short=True)
    layouts = [Layout(full), Layout(full, 2), Layout(short, 2), *narrowing(short, FIRST_TO_GO)]
    yield table(layouts, screen)


def _columns(
    calls: Sequence[CallFigures], screen: Screen, *, bits: bool, short: bool
) -> list[Column]:
    """Each title in full or short."""

    def figure(title: str, show: Callable[[CallFigures], Text]) -> Column:
        return Column(SHORT.get(title, title) if short else title, [show(call) for call in calls])

    def mean(title: str, name: str, digits: int) -> Column:
        return figure(title, lambda call: number(call.mean(name), digits, screen))

    def share(title: str, name: str) -> Column:
        return figure(title, lambda call: percent(call.mean(name), screen))

    unit, factor = ("bit", NAT_IN_BITS) if bits else ("nat", 1.0)
    columns = [
        figure(f"entropy/{unit}", lambda c: number(c.mean("entropy") * factor, 2, screen)),
        share("of max", "normalized_entropy"),
        mean("eff. keys", "effective_keys", 1),
        share("on key 0", "first_key_weight"),
        share("previous", "previous_weight"),
        share("next", "next_weight"),
        share("own", "self_weight"),
        mean("distance", "mean_distance", 1),
        figure("max score", lambda call: number(call.max_score, 1, screen)),
        *_sums(calls, screen),
        figure("saturated", lambda call: _saturated(call, screen)),
        *_odd(calls, "empty", "empty_rows"),
        *_odd(calls, "filled", "filled_rows"),
        Column("heads that are", [_roles(call, screen) for call in calls], "left"),
    ]
    dash = screen.sign("–")
    names = Column("layer", [Text(label(call)) for call in calls])
    return [names, *(column for column in columns if not column.says_nothing(dash))]


def label(call: CallFigures) -> str:
    """The layer's number, with the number of the call where one layer makes several."""
    piece = call.facts.place.piece
    return f"{call.facts.layer}.{piece}" if piece else str(call.facts.layer)


def _sums(calls: Sequence[CallFigures], screen: Screen) -> Iterator[Column]:
    """Mean row sums, where they are not all 1."""
    if any(abs(call.mean("sum") - 1) > SUMS for call in calls):
        yield Column("Σ weights", [number(call.mean("sum"), 3, screen) for call in calls])


def _odd(calls: Sequence[CallFigures], title: str, name: str) -> Iterator[Column]:
    """A count that should be 0, where it is not."""
    if any(call.total(name) for call in calls):
        cells = [Text(f"{call.total(name):,}", WARN if call.total(name) else "") for call in calls]
        yield Column(title, cells)


def _saturated(call: CallFigures, screen: Screen) -> Text:
    """The share of rows with a choice that give one key nearly everything."""
    rows = call.total("choice_rows")
    return (
        number(float("nan"), 0, screen) if not rows else _share(call.total("saturated_rows"), rows)
    )


def _share(part: int, whole: int) -> Text:
    return Text("0%", "dim") if part == 0 else Text(f"{max(100 * part / whole, 1):.0f}%")


def _roles(call: CallFigures, screen: Screen) -> Text:
    words = (f"{count} {WORDS[role]}" for role, count in call.roles.items())
    return screen.text(", ".join(words))
