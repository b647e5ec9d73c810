"""The screen of a code trace: what each row says, at every width, and the line that parts."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from attn_cli.core.code_trace import ArrayLayout, CodeTrace, Operation, Parting, TracedLine
from attn_cli.render.terminal.code_trace import code_trace
from attn_cli.render.terminal.console import UNBOUNDED, Screen

MAP = ArrayLayout((2, 3, 5, 7), (105, 35, 7, 1), True, "float64")
K_T = ArrayLayout((2, 3, 8, 7), (168, 56, 1, 8), False, "float64")
OUT = ArrayLayout((2, 5, 24), (120, 24, 1), True, "float64")
MAP_AXES = ("batch", "head", "query", "key")

TRACE = CodeTrace(
    name="mine.py:Attention",
    file="mine.py",
    question="masked",
    dtype="float64",
    output_agrees=False,
    lines=(
        TracedLine(
            "mine.py",
            8,
            "scores = torch.matmul(query, key.transpose(-2, -1))",
            (
                Operation(
                    "transpose",
                    "key.transpose(-2, -1)",
                    K_T,
                    outer=False,
                    label="k",
                    stages=("k",),
                    axes=("batch", "head", "d_k", "key"),
                ),
                Operation(
                    "matmul",
                    "torch.matmul(query, key.transpose(-2, -1))",
                    MAP,
                    label="scores",
                    stages=("scores",),
                    axes=MAP_AXES,
                ),
            ),
            label="scores",
            stage="scores",
            agrees=True,
        ),
        TracedLine(
            "mine.py",
            9,
            "p = scores.softmax(dim=-2)",
            (
                Operation(
                    "softmax", "scores.softmax(dim=-2)", MAP, should_be="weights", why="values"
                ),
            ),
            agrees=False,
            should_be="weights",
        ),
        TracedLine(
            "mine.py",
            10,
            "return (p @ v).transpose(1, 2).reshape(b, n, -1)",
            (Operation("reshape", "… .reshape(b, n, -1)", OUT, copied=True, count=3),),
            count=3,
        ),
    ),
    first_parting=Parting(
        "mine.py",
        9,
        "p = scores.softmax(dim=-2)",
        "weights",
        "values",
        "they sum to 1 over query, not over key",
    ),
)


def shown(
    trace: CodeTrace,
    width: int,
    *,
    encoding: str = "utf-8",
    every: bool = False,
    cuts: bool = True,
) -> str:
    console = Console(file=io.StringIO(), width=UNBOUNDED, no_color=True, highlight=False)
    screen = Screen(console, width, cuts=cuts, encoding=encoding)
    return screen.render(code_trace(trace, screen, every=every))


def test_a_row_says_what_a_line_gives_and_what_it_is() -> None:
    rows = shown(TRACE, 160).splitlines()
    assert rows[0].split() == ["line", "runs", "source", "gives", "axes", "strides"]
    assert rows[1].split()[0] == "8"
    assert "torch.matmul(query, key.transpose(-2, -1))" in rows[1]
    assert "2×3×5×7" in rows[1]
    assert "batch head query key" in rows[1]
    assert "105 35 7 1" in rows[1]
    assert rows[1].endswith("= scores")
    assert "168 56 1 8 strided" in rows[2]
    assert rows[2].endswith("= k")


def test_the_line_that_parts_is_marked_and_told_last() -> None:
    rows = shown(TRACE, 100).rstrip().splitlines()
    (marked,) = [row for row in rows if row.startswith("!  9")]
    assert marked.endswith("! should be weights")
    assert rows[-1] == "! line 9 should give weights: they sum to 1 over query, not over key"


def test_runs_and_copies_are_told() -> None:
    row = next(row for row in shown(TRACE, 100).splitlines() if "return" in row)
    assert "3×" in row
    assert row.endswith("120 24 1 copied")


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_nothing_is_wider_than_the_screen(width: int) -> None:
    rows = shown(TRACE, width).splitlines()
    assert max(map(len, rows)) <= width
    assert "= scores" in rows[1]
    assert "2×3×5×7" in rows[1]


def test_a_narrow_screen_shortens_the_source_and_keeps_the_marks() -> None:
    rows = shown(TRACE, 80).splitlines()
    assert "…" in rows[1]
    assert "strided" in rows[2]


def test_in_a_pipe_sources_are_whole() -> None:
    rows = shown(TRACE, 100, cuts=False).splitlines()
    assert "…" not in "".join(rows)
    assert "105 35 7 1" in rows[1]
    assert "batch head" not in rows[1]
    assert "batch head" in shown(TRACE, 150, cuts=False)


def test_ascii_screens_spell_the_signs() -> None:
    text = shown(TRACE, 100, encoding="ascii")
    assert text.isascii()
    assert "2x3x5x7" in text


def test_every_expression_where_it_is_asked_for() -> None:
    assert shown(TRACE, 120, every=True).count("torch.matmul(query") == 2
    assert shown(TRACE, 120).count("torch.matmul(query") == 1


def test_right_code_is_called_right() -> None:
    right = replace(TRACE, lines=TRACE.lines[:1], first_parting=None, output_agrees=True)
    last = shown(right, 100).rstrip().splitlines()[-1]
    assert last == "✓ the output is the reference's; 1 of 1 lines are stages of it"


def test_no_line_can_be_blamed() -> None:
    unclear = replace(TRACE, lines=(), first_parting=None)
    assert "no line can be blamed" in shown(unclear, 100)


def test_a_line_that_raised_shows_the_strides_it_was_given() -> None:
    view = Operation("view", "z.view(b, n, -1)", None, before=K_T, raised=True)
    line = TracedLine("mine.py", 12, "z = z.view(b, n, -1)", (view,))
    parting = Parting("mine.py", 12, line.source, None, "raises", "RuntimeError: no view")
    trace = replace(TRACE, lines=(line,), first_parting=parting, output_agrees=None)
    text = shown(trace, 100)
    assert "! 12" in text
    assert "! raises" in text
    assert "168 56 1 8 strided" in text
    assert text.rstrip().endswith("! line 12 raises: RuntimeError: no view")


def test_hostile_source_is_escaped() -> None:
    line = replace(TRACE.lines[1], source="x = '\x1b[31m'")
    assert "\x1b" not in shown(replace(TRACE, lines=(line,)), 100)
