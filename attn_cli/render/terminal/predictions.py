"""The prediction table: what a model expects after each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from attn_cli.core.model_results import Prediction
from attn_cli.render.terminal.names import Names
from attn_cli.render.terminal.numbers import ERROR, NAT_IN_BITS, number
from attn_cli.render.terminal.prose import counted
from attn_cli.render.terminal.table import Column, Layout, table

MOST = 48  # rows; of more the last ones are shown, since they have seen the most
LONGEST_TOKEN = 16


def prediction_table(
    predictions: Sequence[Prediction], names: Names, *, bits: bool
) -> Iterator[Text]:
    """One line a position: the likeliest next tokens, as many as the width allows."""
    shown = predictions[-MOST:]
    after = [Text(names.along("query", one.batch, one.query, LONGEST_TOKEN)) for one in shown]
    factor = NAT_IN_BITS if bits else 1
    spread = [number(one.entropy * factor, 3, names.screen) for one in shown]
    columns = [
        Column("after", after, "left"),
        Column(f"entropy/{'bit' if bits else 'nat'}", spread),
    ]
    most = max(len(one.next) for one in shown)
    layouts = (
        Layout([*columns, _next(shown, names, count)], gap)
        for count in range(max(most, 1), 0, -1)
        for gap in (3, 2)
    )
    yield table(layouts, names.screen)
    if len(predictions) > MOST:
        every = counted(len(predictions), "prediction")
        yield names.screen.text(f"the last {MOST} of {every}; --json has them all", "dim")


def _next(shown: Sequence[Prediction], names: Names, count: int) -> Column:
    return Column("the model expects", [_tokens(one, names, count) for one in shown], "left")


def _tokens(prediction: Prediction, names: Names, count: int) -> Text:
    if not prediction.next:
        return names.screen.text("not finite", ERROR)
    cell = Text()
    for place, one in enumerate(prediction.next[:count]):
        share = f"{one.probability:.3f}"
        if place and share == "0.000":
            break
        cell.append("  " if place else "").append(names.screen.token(one.token, LONGEST_TOKEN))
        cell.append(f" {share}", "dim")
    return cell
