"""The health of a model: one line a layer over all texts, its limits, and what is alarming."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.text import Text

from attn_cli.core.model_health import RULES, Health, LayerHealth
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.numbers import ERROR, number, percent
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, narrowing, table

FIRST_TO_GO = ("by chance", "cosine", "KL/nat")
TOLD = (
    (
        "median of max: over the heads of entropy ÷ ln(visible keys); likeness: mean cosine of two "
        "heads' rows, as a share of the way from chance (each row's weights dealt out at random "
        "over the keys it sees) to equal"
    ),
    (
        "KL: from the layer before to this one, KL(this ‖ before) of a token's row averaged over "
        "the heads, where both have one mask; a 0 of this layer adds nothing, one of the layer "
        "before counts as 1e-38; chance as above"
    ),
)


def health_block(health: Health, screen: Screen) -> Iterator[Text]:
    """Means over the texts; then what the columns are, and the rules."""
    yield Text("  ").join([Text("health", "bold"), screen.text(_over(health))])
    yield Text()
    full = _columns(health, screen)
    layouts = [Layout(full), Layout(full, 2), *narrowing(full, FIRST_TO_GO)]
    yield table(layouts, screen)
    for words in TOLD:
        yield hanging(screen.text(words, "dim"), screen, indent=2)
    yield from _rules(health, screen)


def _over(health: Health) -> str:
    texts = counted(health.texts, "text")
    return f"over {texts}" if health.texts == 1 else f"over {texts}, means"


def _columns(health: Health, screen: Screen) -> list[Column]:
    layers = health.layers

    def mean(title: str, name: str, digits: int) -> Column:
        return Column(title, [number(each.mean(name), digits, screen) for each in layers])

    alarming = {alarm.place for alarm in health.alarms}
    columns = [
        _figure("layer", layers, lambda layer: Text(str(layer.layer))),
        _figure(
            "median of max", layers, lambda layer: percent(layer.mean("median_entropy"), screen)
        ),
        mean("likeness", "likeness", 2),
        mean("cosine", "cosine", 2),
        mean("by chance", "cosine_chance", 2),
        mean("KL/chance", "kl_share", 2),
        mean("KL/nat", "kl", 3),
    ]
    if alarming:
        columns.append(Column("alarms", [_alarms(each, health) for each in layers], "left"))
    if len({layer.stack for layer in layers}) > 1:
        columns.insert(0, Column("tower", [screen.text(each.stack) for each in layers], "left"))
    return columns


def _figure(
    title: str, layers: tuple[LayerHealth, ...], show: Callable[[LayerHealth], Text]
) -> Column:
    return Column(title, [show(layer) for layer in layers])


def _alarms(layer: LayerHealth, health: Health) -> Text:
    rules = [alarm.rule for alarm in health.alarms if alarm.place == layer.place]
    return Text(", ".join(rules), style=ERROR)


def _rules(health: Health, screen: Screen) -> Iterator[Text]:
    """What is alarming, a line a rule."""
    row = "in the text" if health.texts == 1 else _in_a_row(health)
    yield hanging(
        screen.text(f"alarm, and exit code 1, where one of these holds {row}"), screen, indent=2
    )
    wide = max(map(len, RULES))
    for rule, words in RULES.items():
        line = Text(" ").join([Text(f"  {rule:<{wide}}"), screen.text(words, "dim")])
        yield hanging(line, screen, indent=wide + 3)


def _in_a_row(health: Health) -> str:
    return f"in {health.needed} of the {health.texts} texts, one after the other"
