"""Screen: tokens are shortened on terminals only, and streams become the right screen."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from attn_cli.render.terminal.console import LONGEST_TOKEN, screen_for
from tests.unit.render.screens import pipe, terminal


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "token, most, shown",
    [
        ("short", 8, "short"),
        ("extraordinarily", 8, "extr…ily"),
        ("我喜欢吃苹果和梨", 9, "我喜…和梨"),
        ("我喜欢吃苹果和梨", 8, "我喜…梨"),
    ],
)
def test_a_long_token_loses_its_middle(token: str, most: int, shown: str) -> None:
    assert terminal(80).token(token, most) == shown
    assert cell_len(shown) <= most


def test_nothing_is_shortened_in_a_pipe() -> None:
    assert pipe().token("extraordinarily", 8) == "extraordinarily"


def test_a_token_of_a_megabyte_is_shortened_everywhere() -> None:
    shown = pipe().token("a" * 1_000_000 + "z")
    assert cell_len(shown) == LONGEST_TOKEN
    assert shown.endswith("az")


def test_a_token_of_invisible_marks_takes_no_time() -> None:
    assert cell_len(terminal(80).token("\u0301" * 100_000, 16)) <= 16


@pytest.mark.parametrize("encoding, shown", [("utf-8", "the₁₂"), ("ascii", "the#12")])
def test_index_of_a_repeated_token(encoding: str, shown: str) -> None:
    assert terminal(80, encoding=encoding).token("the", 8, index=12) == shown


def test_the_index_is_kept_where_the_token_is_shortened() -> None:
    assert terminal(80).token("extraordinarily", 8, index=3) == "ext…ily₃"


def test_markup_in_words_is_not_interpreted() -> None:
    screen = pipe()
    assert screen.render([screen.text("[bold]x[/bold] :smile: \x1b[31m")]) == (
        "[bold]x[/bold] :smile: \\x1b[31m\n"
    )


def test_a_pipe_has_no_colour_and_cuts_nothing() -> None:
    screen = screen_for(io.StringIO())
    assert not screen.cuts
    assert screen.shades == ()
    assert screen.width == 100
    assert screen.render([screen.text("x", "bold red")]) == "x\n"


def test_columns_says_what_a_pipe_is_arranged_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert screen_for(io.StringIO()).width == 72


def test_a_terminal_has_colour_and_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "72")
    screen = screen_for(FakeTerminal())
    assert screen.cuts
    assert screen.width == 72
    assert screen.shades


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = screen_for(FakeTerminal())
    assert screen.shades == ()
    assert "\x1b[31m" not in screen.render([screen.text("x", "red")])
