"""Text that came from a file, made safe to show: escaped, spelled in the encoding, shortened."""

from __future__ import annotations

import unicodedata

# Categories that move the cursor, hide, or change the order of what stands beside them.
UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
# Letters and marks that draw nothing although Unicode calls them visible.
BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
MARKS = frozenset({"Mn", "Me"})
MOST_MARKS = 4
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
JOINER = "\u200d"
JOINED = frozenset({"So", "Sk"})
EMOJI_STYLE = "\ufe0f"

# How a screen without these characters spells them.
SPELLING = {
    "·": ".",
    "•": "*",
    "…": "~",
    "–": "-",
    "—": "-",
    "−": "-",
    "─": "-",
    "│": "|",
    "╲": "\\",
    "×": "x",
    "÷": "/",
    "√": "sqrt ",
    "µ": "u",
    "ᵀ": "^T",
    "Σ": "sum",
    "∞": "inf",
    "±": "+-",
    "∂": "d",
    "≠": "!=",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "→": "->",
    "✓": "ok",
    "✗": "x",
    "␣": "_",
    "∅": "{}",
    "░": ".",
    "▒": ":",
    "▓": "+",
    "█": "#",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
}


def clean(text: str) -> str:
    r"""Text with every character that is not seen as itself escaped; one line in, one line out.

    Control, bidirectional, zero-width, private and unpaired surrogate characters and spaces other
    than U+0020 are escaped; a joiner inside an emoji stays.

    >>> clean("a\x1b[31m\n")
    'a\\x1b[31m\\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if _is_seen(text, index) else escaped(character)
        for index, character in enumerate(text)
    )


def safe(token: str) -> str:
    """A token as it can be shown: `clean`, outer spaces made visible, the empty token as "".

    >>> safe(" the"), safe("")
    ('␣the', '""')
    """
    if not token:
        return '""'
    left = len(token) - len(token.lstrip(" "))
    right = len(token) - len(token.rstrip(" ")) if left < len(token) else 0
    return "␣" * left + clean(token[left : len(token) - right]) + "␣" * right


def spelled(text: str, encoding: str) -> str:
    """Text in characters that `encoding` has: known signs in ASCII, all others escaped.

    >>> spelled("q · kᵀ 我", "ascii")
    'q . k^T \\\\u6211'
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_spelled_character(character, encoding) for character in text)
    return text


def escaped(character: str) -> str:
    r"""A character as Python writes it: \n, \x1b, \u202e, \U0001f600."""
    if character in NAMED:
        return NAMED[character]
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_seen(text: str, index: int) -> bool:
    character = text[index]
    if character == " ":
        return True
    if character == JOINER:
        return _joins(text[index - 1 : index]) and _joins(text[index + 1 : index + 2])
    category = unicodedata.category(character)
    if category in MARKS:  # it needs a letter to stand on, and a letter carries only so many
        before = [unicodedata.category(mark) for mark in text[max(0, index - MOST_MARKS) : index]]
        stands = index > 0 and not (len(before) == MOST_MARKS and MARKS.issuperset(before))
        return stands and character not in BLANK
    return category not in UNSEEN and character not in BLANK


def _joins(neighbour: str) -> bool:
    return neighbour == EMOJI_STYLE or (
        neighbour != "" and unicodedata.category(neighbour) in JOINED
    )


def _spelled_character(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return SPELLING.get(character) or escaped(character)
    return character
