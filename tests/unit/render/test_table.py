"""Tables leave columns out; they never cut one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from attn_cli.render.terminal.table import Column, Layout, table
from tests.unit.render.screens import drawn, pipe, terminal


def column(title: str, *cells: str, left: bool = False) -> Column:
    return Column(title, [Text(cell) for cell in cells], "left" if left else "right")


NAME = column("name", "我", "cat", left=True)
SUM = column("sum", "1.000000", "0.5")
NOTE = column("note", "", "seen", left=True)
LAYOUTS: Sequence[Layout] = [Layout([NAME, SUM, NOTE]), Layout([NAME, SUM], 1)]


def test_wide_characters_align_and_lines_end_with_their_text() -> None:
    assert drawn(table(LAYOUTS, terminal(80)), terminal(80)) == [
        "name        sum   note",
        "我     1.000000",
        "cat         0.5   seen",
    ]


def test_the_first_layout_that_fits_is_drawn() -> None:
    assert drawn(table(LAYOUTS, terminal(21)), terminal(21))[0] == "name      sum"
    assert drawn(table(LAYOUTS, terminal(22)), terminal(22))[0].endswith("note")


def test_where_none_fits_a_terminal_has_the_last_and_a_pipe_the_first() -> None:
    assert drawn(table(LAYOUTS, terminal(5)), terminal(5))[0] == "name      sum"
    assert drawn(table(LAYOUTS, pipe(5)), pipe(5))[0].endswith("note")


def test_a_column_of_dashes_says_nothing() -> None:
    assert column("x", "–", "").says_nothing("–")
    assert not column("x", "–", "0").says_nothing("–")
