"""Shades of weight: one hue from grey to vivid where there is colour, ░▒▓█ where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from rich.color import Color
from rich.style import Style

# From grey to a vivid blue at about one lightness: it reads on dark and on light terminals, and
# white digits stand out on every shade.
FAINT = (82, 86, 94)
VIVID = (0, 105, 255)
STEPS = 20
PALETTE = (240, 60, 25, 26, 27)  # the like among the 256 colours
BLOCKS = "░▒▓█"
FACTOR = 4.0  # a block character stands for weights so many times those of the one before
NEGLIGIBLE = 0.01  # a smaller weight has no shade
GAMMA = 0.65  # small weights differ more to the eye than in number
WHITE = Color.from_rgb(255, 255, 255)


@cache
def shades(color_system: str | None) -> tuple[Style, ...]:
    """The cell styles of a colour system as Rich names it, the faintest first; none without."""
    if color_system is None:
        return ()
    if color_system != "truecolor":
        return tuple(Style(color=WHITE, bgcolor=Color.from_ansi(number)) for number in PALETTE)
    parts = [step / (STEPS - 1) for step in range(STEPS)]
    mixed = [[round(a + (b - a) * p) for a, b in zip(FAINT, VIVID, strict=True)] for p in parts]
    return tuple(Style(color=WHITE, bgcolor=Color.from_rgb(*rgb)) for rgb in mixed)


def weight_style(weight: float, styles: Sequence[Style]) -> Style:
    """The style of one weight from 0 to 1: quiet where it is negligible, else a shade."""
    if weight < NEGLIGIBLE:
        return Style(dim=True)
    if not styles:
        return Style()
    step = math.ceil(len(styles) * math.pow(weight, GAMMA))
    return styles[min(step, len(styles)) - 1]


def block_step(weight: float, largest: float, steps: int) -> int:
    """Which of `steps` shades a block has, from 1: each is a like factor above the one before.

    They span FACTOR to the power of the number of block characters; what is below has 0.
    """
    if not (weight > 0 and largest > 0):
        return 0
    depth = math.log(largest / weight) / math.log(FACTOR) / len(BLOCKS)  # 0 at the largest
    return min(steps, math.floor(steps * (1 - depth)) + 1) if depth <= 1 else 0


def block_floors(largest: float) -> list[float]:
    """The least weight of each block character, the faintest first."""
    return [largest / FACTOR**power for power in range(len(BLOCKS), 0, -1)]
