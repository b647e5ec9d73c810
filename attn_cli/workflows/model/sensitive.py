"""Sensitive tokens: those of a text that a pattern covers, such as names or identity numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.errors import InputError
from attn_cli.workflows.model.sequences import Labels, Marked, real_of, sequences
from attn_cli.workflows.model.token_patterns import LONGEST, compiled, limited, named

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs

OPTION = "--sensitive"
Span = tuple[int, int]


def sensitive(inputs: ModelInputs, pattern: str, texts: Sequence[str]) -> tuple[Marked, str]:
    """The marked tokens, and where the pattern was looked for: "text" or "token".

    In the texts where they are known, so that a number which is cut into several tokens is found
    whole and all of them are marked; in each token in a decoder's sequence, and where some of what
    is found stands in no token whose place is known. InputError where nothing is found.
    """
    expression, there = compiled(pattern, OPTION), sequences(inputs)
    if not there:
        raise InputError(f"{OPTION} needs tokens, and the positions of this input have no names")
    with limited(pattern, OPTION):
        marks = {name: _each(expression, labels) for name, labels in there.items()}
        known = len(texts) == len(there["main"])
        whole = _in_texts(expression, there["main"], texts) if known else None
    if whole is not None:
        marks["main"] = whole
    if not any((mark & real_of(inputs, name)).any() for name, mark in marks.items()):
        raise InputError(f"{OPTION}: nothing in the input matches /{named(pattern)}/")
    return Marked(inputs, marks), "token" if whole is None else "text"


def _each(expression: re.Pattern[str], labels: Labels) -> BoolArray:
    rows = [[_is_in(expression, token[:LONGEST]) for token in row] for row in labels]
    return np.array(rows, bool)


def _is_in(expression: re.Pattern[str], token: str) -> bool:
    """Whether some of the token matches; a match of nothing is none."""
    return any(match[0] for match in expression.finditer(token))


def _in_texts(
    expression: re.Pattern[str], labels: Labels, texts: Sequence[str]
) -> BoolArray | None:
    """None where a match is in no token."""
    rows = []
    for row, text in zip(labels, texts, strict=True):
        found = [match.span() for match in expression.finditer(text) if match[0].strip()]
        spans = token_spans(row, text)
        if not all(any(span and _touches(span, [one]) for span in spans) for one in found):
            return None
        rows.append([span is not None and _touches(span, found) for span in spans])
    return np.array(rows, bool)


def _touches(span: Span, found: Sequence[Span]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in found)


def token_spans(row: Sequence[str], text: str) -> list[Span | None]:
    """Where each token stands in its text; None for one that does not stand there ([CLS]).

    Tokens follow one another with nothing but white space between. Several tokens of one character
    (bytes of it) have its place.

    >>> token_spans(["[CLS]", "a", "12", "34", "[SEP]"], "a 1234")
    [None, (0, 1), (2, 4), (4, 6), None]
    """
    return list(_spans(row, text))


def _spans(row: Sequence[str], text: str) -> Iterator[Span | None]:
    end, last = 0, None
    for token in row:
        at = text.find(token, end) if token else -1
        if at >= 0 and not text[end:at].strip():
            end = at + len(token)
            last = (at, end)
            yield last
        elif last is not None and text[slice(*last)] == token:
            yield last
        else:
            yield None
