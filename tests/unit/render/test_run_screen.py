"""The whole screen of a run: at widths that cut nothing, and with hostile tokens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from attn_cli.core.findings import Finding, note
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.run import PARTS, run_screen
from tests.unit.render.example import Case, apple, random, result
from tests.unit.render.screens import pipe, terminal

EXPECTED = Path(__file__).parent / "expected"
FINDINGS = (
    Finding(
        "saturated-row",
        "warning",
        "1 of 4 rows with a choice gives one key more than 0.99 of the weight: "
        "head 0, query 1 '喜欢'",
    ),
    note("no-projections", "no projections: Q = K = V = x, split into 2 heads of 4"),
)
DEFAULT = [part for part in PARTS if part != "values"]
HOSTILE = (
    "\x1b[2J\x1b[31m",
    "[bold red]x[/]",
    "\u202eevil\u202c",
    "a\nb",
    "",
    "\ud800",
    "supercalifragilisticexpialidocious" * 20,
    "👩\u200d👧",
)

CASES = {
    "apple": apple(findings=FINDINGS, settings={"from_file": ("heads", "mask")}),
    "cross": random(
        (1, 3, 4, 8),
        seed=5,
        keys=6,
        tokens=("the", "cat", "the", "dog"),
        key_tokens=("une", "pomme", "rouge", "sur", "la", "table"),
    ),
    "blocks": random(
        (1, 2, 96, 8),
        seed=6,
        visible=np.tri(96, dtype=bool),
        rows=(0, 1, 50, 95),
    ),
}


@pytest.mark.parametrize("width", [100, 200])
@pytest.mark.parametrize("name", CASES)
def test_screen(name: str, width: int) -> None:
    screen = run_screen(result(CASES[name]), terminal(width), parts=DEFAULT)
    expected = EXPECTED / f"{name}-{width}.txt"
    assert screen == expected.read_text(encoding="utf-8")


def test_a_pipe_shows_what_a_terminal_of_its_width_shows() -> None:
    case = result(CASES["apple"])
    assert run_screen(case, pipe(100), parts=DEFAULT) == run_screen(
        case, terminal(100), parts=DEFAULT
    )


def hostile_case() -> Case:
    finding = Finding("saturated-row", "warning", "query '\x1b[31m' \u202e sees one key")
    return random(
        (1, 2, 8, 4),
        tokens=HOSTILE,
        source="\x1b]0;title\x07.json",
        findings=(finding,),
        values=("weights",),
    )


@pytest.mark.parametrize("screen", [terminal(80), terminal(100), terminal(200), pipe()])
def test_nothing_hostile_reaches_the_screen(screen: Screen) -> None:
    shown = run_screen(result(hostile_case()), screen, parts=PARTS)
    for character in ("\x1b", "\x07", "\u202e", "\u202c", "\ud800", "\r"):
        assert character not in shown
    assert "[bold red]x[/]" in shown
    assert r"\u202eevil\u202c" in shown
    assert r"a\nb" in shown
    shown.encode("utf-8")


@pytest.mark.parametrize("width", [80, 100, 200])
def test_hostile_tokens_do_not_break_the_width(width: int) -> None:
    shown = run_screen(result(hostile_case()), terminal(width), parts=PARTS)
    assert max(map(cell_len, shown.splitlines())) <= width


def test_ascii_has_an_answer_to_every_sign() -> None:
    for case in (*CASES.values(), hostile_case()):
        run_screen(result(case), pipe(encoding="ascii"), parts=PARTS).encode("ascii")
        run_screen(result(case), terminal(80, encoding="ascii"), parts=PARTS).encode("ascii")


def test_colour_changes_no_character() -> None:
    plain = run_screen(result(CASES["apple"]), terminal(100), parts=DEFAULT)
    coloured = run_screen(result(CASES["apple"]), terminal(100, colour="truecolor"), parts=DEFAULT)
    assert "\x1b[" in coloured
    assert _without_escapes(coloured) == plain


@pytest.mark.parametrize("part", [part for part in DEFAULT if part != "spread"])  # of long runs
def test_a_part_alone_stands_below_the_header(part: str) -> None:
    shown = run_screen(result(CASES["apple"]), pipe(), parts=[part]).splitlines()
    whole = run_screen(result(CASES["apple"]), pipe(), parts=DEFAULT)
    assert shown[:3] == whole.splitlines()[:3]
    assert "\n".join(shown[3:]) in whole


def test_a_single_row_has_no_head_table() -> None:
    case = random((1, 1, 1, 4), keys=3)
    assert "means" not in run_screen(result(case), pipe(), parts=DEFAULT)


def _without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_findings_stand_last() -> None:
    case = apple(findings=FINDINGS, values=("weights",))
    lines = run_screen(result(case), pipe(), parts=PARTS).splitlines()
    assert lines[-1].split() == ["saturated-row"]
