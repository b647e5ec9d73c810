"""Numbers as they are printed: how many digits, and what stands where there is no number."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.text import Text

from attn_cli.render.terminal.console import Screen

NAT_IN_BITS = 1 / math.log(2)
NAN = "NaN"
WARN = "bold yellow"
ERROR = "bold red"


def number(value: float, digits: int, screen: Screen) -> Text:
    """A number with so many digits after the point; a quiet dash for NaN (not defined here)."""
    if math.isnan(value):
        return Text(screen.sign("–"), style="dim")
    if math.isinf(value):
        return Text(screen.sign("∞" if value > 0 else "−∞"), style=ERROR)
    return Text(f"{value:z.{digits}f}")


def percent(value: float, screen: Screen) -> Text:
    """A share of 1 as a whole percentage."""
    return number(value, 0, screen) if math.isnan(value) else Text(f"{100 * value:.0f}%")


def entropy(numbers: Mapping[str, float], screen: Screen, *, bits: bool) -> Text:
    """The entropy among a row's or head's numbers, which are in nats, in nats or bits."""
    return number(numbers["entropy"] * (NAT_IN_BITS if bits else 1), 3, screen)


def row_sum(value: float, tolerance: float) -> Text:
    """A row's sum with 6 digits, marked where it is further than `tolerance` from 1."""
    if math.isnan(value):
        return Text(f"! {NAN}", style=ERROR)
    shown = f"{value:.6f}"
    return Text(shown) if abs(value - 1) <= tolerance else Text(f"! {shown}", style=WARN)
