"""An ablation: the weight that a token had in each layer, beside how the output moves then."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rich.text import Text

from attn_cli.core.model_ablation import Ablation, LayerAblation, Movement
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.model_flow import LONGEST, token_line
from attn_cli.render.terminal.numbers import number, percent
from attn_cli.render.terminal.prose import counted, hanging
from attn_cli.render.terminal.table import Column, Layout, table


def ablation_block(ablation: Ablation, screen: Screen) -> Iterator[Text]:
    """One line a layer, then all layers at once."""
    yield Text("  ").join([Text("ablate-key", "bold"), screen.text(ablation.asked)])
    yield token_line("taken away", ablation.tokens, screen)
    yield Text()
    full = _columns(ablation, screen)
    kept = [column for column in full if not column.says_nothing(screen.sign("–"))]
    short = [column for column in kept if column.title not in ("largest", "by head", "changed")]
    yield table([Layout(kept), Layout(kept, 2), Layout(short, 2)], screen)
    yield hanging(_explained(ablation, screen), screen, indent=2)
    yield hanging(screen.text(_everywhere(ablation, screen)), screen, indent=2)


def _columns(ablation: Ablation, screen: Screen) -> list[Column]:
    layers = ablation.layers

    def figure(title: str, show: Callable[[LayerAblation], Text]) -> Column:
        return Column(title, [show(layer) for layer in layers])

    columns = [
        figure("layer", lambda layer: Text(str(layer.layer))),
        figure("weight", lambda layer: number(layer.weight, 3, screen)),
        figure("by chance", lambda layer: number(layer.chance, 3, screen)),
        figure("largest", lambda layer: number(layer.largest, 3, screen)),
        figure("by head", lambda layer: Text(str(layer.head))),
        figure("output moves", lambda layer: _share(layer.movement.moved, screen)),
        figure("at most", lambda layer: _share(layer.movement.most, screen)),
        figure("KL/nat", lambda layer: _small(layer.movement.kl, screen)),
        figure("changed", lambda layer: _changed(layer.movement)),
    ]
    if len({layer.stack for layer in layers}) > 1:
        columns.insert(0, Column("tower", [screen.text(each.stack) for each in layers], "left"))
    return columns


def _share(value: float, screen: Screen) -> Text:
    """In percent, with a digit more where it is small."""
    small = value < 0.1 and not math.isnan(value)
    return Text(f"{100 * value:.2f}%") if small else percent(value, screen)


def _small(value: float, screen: Screen) -> Text:
    """Two digits that count, however small the number."""
    return Text(f"{value:.2g}") if math.isfinite(value) else number(value, 0, screen)


def _changed(movement: Movement) -> Text:
    return Text() if movement.changed is None else Text(f"{movement.changed} of {movement.rows}")


def _explained(ablation: Ablation, screen: Screen) -> Text:
    changed = "; changed: rows in which another one is the likeliest"
    kl = "; KL: before to after, of the probabilities"
    logits = ablation.everywhere.changed is not None
    words = (
        "weight: what other tokens give it, mean over the heads; output moves: length of the "
        f"difference of {ablation.output} ÷ length of the row, if this layer alone loses the token"
    )
    return screen.text(words + (kl + changed if logits else ""), "dim")


def _everywhere(ablation: Ablation, screen: Screen) -> str:
    """One sentence of all layers at once."""
    moved = ablation.everywhere
    if not moved.rows:
        return "no other row of the output is left to compare"
    words = f"without it in every layer the output moves by {_share(moved.moved, screen).plain}"
    if moved.where is not None and moved.rows > 1:
        token = screen.token(moved.where.token, LONGEST)
        named = f"{moved.where.position}:{token}" if token else str(moved.where.position)
        named += f" in item {moved.where.item}" if moved.where.item else ""
        words += f", {_share(moved.most, screen).plain} at {named}"
    if moved.changed is not None:
        rows = counted(moved.rows, "row")
        words += f"; KL {_small(moved.kl, screen).plain} nat; "
        words += f"{moved.changed:,} of {rows} have another likeliest"
    return words
