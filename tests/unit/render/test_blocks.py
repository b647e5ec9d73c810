"""The heat map of blocks: shades, hidden blocks, axes and legend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.render.terminal.blocks import block_map, block_sizes, largest_block, legend
from attn_cli.render.terminal.names import names
from attn_cli.render.terminal.shade import BLOCKS, block_floors, block_step, shades, weight_style
from tests.unit.render.example import random, result
from tests.unit.render.screens import drawn, terminal

CAUSAL = np.tri(100, dtype=bool)


def test_a_causal_picture_is_a_triangle_with_its_ranges() -> None:
    case = result(random((1, 1, 100, 4), visible=CAUSAL, cells=10))
    view = case.views[0]
    lines = drawn(block_map(view, largest_block([view]), names(case, terminal(80))), terminal(80))
    assert lines[0] == "query ╲ key 0   20  40  60  80"
    assert [line[:11].strip() for line in lines[1:4]] == ["0–9", "10–19", "20–29"]
    assert [len(line) - 12 for line in lines[1:]] == [2 * row for row in range(1, 11)]
    assert set("".join(line[12:] for line in lines[1:])) <= {*BLOCKS, "·"}
    assert block_sizes(view).strip() == "a cell is 10 queries × 10 keys"


def test_nan_is_not_painted_over() -> None:
    case = result(random((1, 1, 100, 4), cells=10))
    cells = case.views[0].cells.copy()
    cells[3, 4] = np.nan
    view = replace(case.views[0], cells=cells)
    lines = drawn(block_map(view, largest_block([view]), names(case, terminal(80))), terminal(80))
    assert lines[4][12 + 8 : 12 + 10] == "!!"
    assert "!! NaN" in " ".join(drawn(legend([view], terminal(100)), terminal(100)))


def test_a_cell_takes_one_column_where_two_do_not_fit() -> None:
    case = result(random((1, 1, 100, 4), cells=20))
    view = case.views[0]
    lines = drawn(block_map(view, largest_block([view]), names(case, terminal(40))), terminal(40))
    assert {len(line) for line in lines[1:]} == {12 + 20}


def test_shading_by_colour_prints_spaces() -> None:
    case = result(random((1, 1, 100, 4), cells=10))
    screen = terminal(80, colour="truecolor")
    lines = drawn(block_map(case.views[0], 0.1, names(case, screen)), screen)
    assert "\x1b[38;2;255;255;255;48;2;" in lines[1]
    assert not set(BLOCKS) & set("".join(lines))


@pytest.mark.parametrize("steps", [4, 5, 20])
def test_block_steps_rise_with_the_weight(steps: int) -> None:
    weights = np.geomspace(1e-6, 0.5, 400)
    taken = [block_step(float(weight), 0.5, steps) for weight in weights]
    assert taken == sorted(taken)
    assert set(taken) == set(range(steps + 1))
    assert block_step(0.5, 0.5, steps) == steps
    assert block_step(0.0, 0.5, steps) == block_step(0.0, 0.0, steps) == 0


def test_the_floors_of_the_legend_are_where_the_steps_begin() -> None:
    for step, floor in enumerate(block_floors(0.5), start=1):
        assert block_step(floor * 1.0001, 0.5, 4) == step
        assert block_step(floor * 0.9999, 0.5, 4) == step - 1


@pytest.mark.parametrize("system", ["truecolor", "256", "standard"])
def test_white_digits_stand_out_on_every_shade(system: str) -> None:
    for style in shades(system):
        assert style.bgcolor is not None
        channels = [channel / 255 for channel in style.bgcolor.get_truecolor()]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (luminance + 0.05) > 4.4  # about what WCAG asks of text


def test_weights_are_shaded_by_size_and_negligible_ones_are_not() -> None:
    styles = shades("truecolor")
    steps = [styles.index(weight_style(weight, styles)) for weight in (0.01, 0.1, 0.5, 0.9, 1.0)]
    assert steps == sorted(set(steps))
    assert steps[-1] == len(styles) - 1
    assert weight_style(0.009, styles).bgcolor is None
