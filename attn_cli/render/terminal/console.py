"""Screen: where characters go: how wide it is, what it can show, and whether it is a terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from attn_cli.render.terminal.shade import shades
from attn_cli.render.text import clean, safe, spelled

PIPE_WIDTH = 100  # what a screen is arranged for where nobody says how wide it is
NARROWEST = 40  # narrower screens wrap by themselves
HEIGHT = 25  # nothing depends on it; Rich asks the system where it is not said
UNBOUNDED = 1_000_000  # wider than any table: in a pipe nothing is cut
LONGEST_TOKEN = 200  # cells; even in a pipe one hostile token must not fill a disk
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, slots=True)
class Screen:
    """A place to show text. `width` columns to arrange in; `cuts` says whether that is a limit.

    On a terminal it is. In a pipe tables are as wide as they need, and only running text and
    tables side by side keep to `width`.
    """

    console: Console
    width: int
    cuts: bool
    encoding: str

    @property
    def shades(self) -> tuple[Style, ...]:
        """Styles to shade cells by, the faintest first; none where there is no colour."""
        return shades(None if self.console.no_color else self.console.color_system)

    def fits(self, cells: int) -> bool:
        """Whether something this wide may be shown."""
        return not self.cuts or cells <= self.width

    def text(self, words: str, style: str = "") -> Text:
        """Words of ours or out of a file, safe to show and spelled in the screen's encoding."""
        return Text(spelled(clean(words), self.encoding), style=style)

    def sign(self, sign: str) -> str:
        """A sign of ours, spelled in the screen's encoding."""
        return spelled(sign, self.encoding)

    def token(self, token: str, most: int | None = None, *, index: int | None = None) -> str:
        """A token safe to show, with its index where several are alike, of at most `most` cells."""
        mark = "" if index is None else self._index(index)
        limit = LONGEST_TOKEN if most is None or not self.cuts else most
        return _shown(token, limit - len(mark), self.encoding) + mark

    def shortened(self, text: str, most: int) -> str:
        """Text of at most `most` cells: what is too long loses its middle."""
        return _shortened(text, most, self.sign("…"))

    def render(self, parts: Iterable[Text]) -> str:
        """The parts one below the other, with colour where the screen has it."""
        with self.console.capture() as capture:
            for part in parts:
                self.console.print(part, soft_wrap=True)
        return capture.get()

    def _index(self, index: int) -> str:
        digits = str(index).translate(SUBSCRIPTS)
        return digits if spelled(digits, self.encoding) == digits else f"#{index}"


def screen_for(stream: TextIO) -> Screen:
    """The screen that `stream` is: colour only on a terminal and without NO_COLOR."""
    terminal = stream.isatty()
    width = max(NARROWEST, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    console = Console(
        file=io.StringIO(),  # Rich draws; what it drew is written by the command
        force_terminal=True if terminal else None,
        width=width if terminal else UNBOUNDED,
        height=HEIGHT,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    return Screen(console, width, cuts=terminal, encoding=encoding)


@lru_cache(maxsize=4096)  # a token stands in many places of one screen
def _shown(token: str, most: int, encoding: str) -> str:
    """A token safe to show, spelled in the encoding and shortened to `most` cells."""
    if len(token) > 4 * LONGEST_TOKEN:  # only its ends can show
        token = token[: 2 * LONGEST_TOKEN] + token[-2 * LONGEST_TOKEN :]
    return _shortened(spelled(safe(token), encoding), most, spelled("…", encoding))


def _shortened(text: str, most: int, dots: str) -> str:
    if cell_len(text) <= most:
        return text
    left = (most - len(dots) + 1) // 2
    return _first(text, left) + dots + _last(text, most - len(dots) - left)


def _first(text: str, cells: int) -> str:
    """The beginning of a text, of at most so many cells."""
    end = 0
    while end < len(text) and cell_len(text[: end + 1]) <= cells:
        end += 1
    return text[:end]


def _last(text: str, cells: int) -> str:
    """The end of a text, of at most so many cells."""
    start = len(text)
    while start > 0 and cell_len(text[start - 1 :]) <= cells:
        start -= 1
    return text[start:]
