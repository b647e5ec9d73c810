"""Vocabulary: the tokens of a model, and text as a sequence of them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.formats.names import LONGEST, quoted

KNOWN = 10  # tokens that a message lists
NEAR = 3  # of those that are near to one that is not there
ALIKE = 0.5  # difflib's ratio
CUTS_SHOWN = 5
PARTS_SHOWN = 12  # of each


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens in the order of their ids; none twice, none with a blank in it."""

    tokens: tuple[str, ...]
    ids: Mapping[str, int]
    lengths: tuple[int, ...]  # the numbers of characters that tokens have, the largest first

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Words:
    """A text as a model reads it: the ids of its tokens, and what is said of the cutting."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def parse_vocabulary(text: str) -> Vocabulary:
    """The vocabulary of a file's metadata, a JSON list of tokens.

    InputError names a token that is no string, empty, holds a blank or occurs twice.
    """
    try:
        tokens = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("the model's vocabulary is not valid JSON") from error
    if not isinstance(tokens, list) or not tokens:
        raise InputError("the model's vocabulary is no list of tokens")
    ids: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(f"token {index} of the model's vocabulary is no string")
        if token.split() != [token]:
            raise InputError(
                f"token {index} of the model's vocabulary, {quoted(token)}, is empty or holds a "
                "blank: a text is split at blanks, so it could never be met"
            )
        if token in ids:
            raise InputError(
                f"the model's vocabulary holds {quoted(token)} twice, as tokens {ids[token]} and "
                f"{index}"
            )
        ids[token] = index
    lengths = sorted({len(token) for token in tokens}, reverse=True)
    return Vocabulary(tuple(tokens), ids, tuple(lengths))


def read_words(text: str, vocabulary: Vocabulary) -> Words:
    """`text` as tokens: split at blanks; what is no token is cut into the longest ones from its
    left, as Chinese is written, and a note says so.

    Case and accents count. InputError names the first piece that cannot be cut, and the tokens
    that are near to it.
    """
    ids: list[int] = []
    cuts: list[str] = []
    for piece in text.split():
        if piece in vocabulary.ids:
            ids.append(vocabulary.ids[piece])
        else:
            parts = list(_cut(piece, vocabulary))
            ids += [vocabulary.ids[part] for part in parts]
            shown = " ".join(parts[:PARTS_SHOWN])
            cuts.append(f"{quoted(piece)} as {shown}{' …' if len(parts) > PARTS_SHOWN else ''}")
    if not ids:
        raise InputError("the text holds no token", hint=_known(vocabulary))
    tokens = tuple(vocabulary.tokens[i] for i in ids)
    return Words(tuple(ids), tokens, tuple(_said(cuts)))


def _cut(piece: str, vocabulary: Vocabulary) -> Iterator[str]:
    """The longest token at each place, from left to right."""
    start = 0
    while start < len(piece):
        parts = (piece[start : start + length] for length in vocabulary.lengths)
        part = next((part for part in parts if part in vocabulary.ids), None)
        if part is None:
            raise _unknown(piece, start, vocabulary)
        yield part
        start += len(part)


def _unknown(piece: str, start: int, vocabulary: Vocabulary) -> InputError:
    """The error for a piece of text in which no token begins at `start`."""
    rest = piece[start:]
    message = f"{quoted(piece)} is not in the model's vocabulary"
    if start:
        message += f", and no token of it begins {quoted(rest)}"
    near = [
        *difflib.get_close_matches(piece[:LONGEST], vocabulary.tokens, n=NEAR, cutoff=ALIKE),
        *difflib.get_close_matches(rest[:LONGEST], vocabulary.tokens, n=NEAR, cutoff=ALIKE),
    ]
    first = list(dict.fromkeys(near))[:NEAR]
    meant = f"did you mean {' or '.join(map(quoted, first))}? " if first else ""
    return InputError(message, hint=meant + _known(vocabulary))


def _known(vocabulary: Vocabulary) -> str:
    first = " ".join(vocabulary.tokens[:KNOWN])
    more = len(vocabulary) - KNOWN
    return f"it knows {first}" + (f" and {more:,} more" if more > 0 else "")


def _said(cuts: Sequence[str]) -> Iterator[Finding]:
    if cuts:
        more = f" and {len(cuts) - CUTS_SHOWN} more" if len(cuts) > CUTS_SHOWN else ""
        shown = ", ".join(cuts[:CUTS_SHOWN])
        yield note("longest-match", f"read {shown}{more}: the longest tokens that match, from left")
