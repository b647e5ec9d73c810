"""Names out of files, made fit to print: files are hostile, and so are their names."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 80  # characters of a name that a message shows
MOST = 10  # names that a message lists


def printable(text: str) -> str:
    r"""`text` with control, escape, bidirectional and surrogate characters written as escapes.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def quoted(text: str) -> str:
    """`text` in quotation marks, printable and cut to a length that fits a message.

    >>> quoted("it's")
    '"it\\'s"'
    """
    return repr(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def listed(names: Sequence[str]) -> str:
    """The first names of many, quoted, and how many more there are.

    >>> listed(["q", "k"])
    "'q', 'k'"
    """
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(quoted(name) for name in names[:MOST]) + more


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
