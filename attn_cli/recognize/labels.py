"""Labels: the tokens of a file, counted against the vectors, for queries and for keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import Labels
from attn_cli.errors import InputError

Tokens = tuple[tuple[str, ...], ...]  # one tuple a batch item

_PADDING = "[pad]"


@dataclass(frozen=True, slots=True)
class Positions:
    """What tokens must fit: B, L and S, the offset of query 0, and the real keys of each item."""

    batch: int
    queries: int
    keys: int
    q_offset: int | None
    cross: bool = False
    lengths: tuple[int, ...] | None = None


def label_positions(
    tokens: Any | None, key_tokens: Any | None, at: Positions
) -> tuple[Labels | None, tuple[Finding, ...]]:
    """The labels of queries and keys, or None where no token is named.

    `tokens` are one list, or one a batch item; they name the queries, and the keys too unless those
    are another sequence's. Fewer queries than keys (decoding) take theirs from the tokens of the
    keys where an alignment says which. A side without tokens is numbered. Raises InputError where
    the counts differ.
    """
    if tokens is None and key_tokens is None:
        return None, ()
    query: Tokens | None = None
    key = None if key_tokens is None else _fit(key_tokens, "context_tokens", at.keys, "keys", at)
    if tokens is not None and (at.cross or key is not None):
        query = _fit(tokens, "tokens", at.queries, "queries", at)
    elif tokens is not None:
        query, key = _one_sequence(tokens, at)
    labels = Labels(
        query=query or _numbers(at.queries, at.batch), key=key or _numbers(at.keys, at.batch)
    )
    return labels, _shared(at, tokens, key_tokens)


def _one_sequence(tokens: Any, at: Positions) -> tuple[Tokens | None, Tokens | None]:
    """The labels of queries and of keys that are positions of one sequence."""
    if at.queries == at.keys:
        both = _fit(tokens, "tokens", at.keys, "vectors", at)
        return both, both
    counts = {len(words) for words in _items(tokens)}
    if counts == {at.queries}:
        return _fit(tokens, "tokens", at.queries, "queries", at), None
    if at.keys not in counts:
        raise InputError(
            f"tokens has length {min(counts)}, and there are {at.queries} queries and {at.keys} "
            "keys",
            hint="give one token a key, or one a query",
        )
    key = _fit(tokens, "tokens", at.keys, "keys", at)
    start = at.q_offset
    if start is None or start < 0 or start + at.queries > at.keys:
        return None, key
    return tuple(words[start : start + at.queries] for words in key), key


def _fit(tokens: Any, name: str, count: int, what: str, at: Positions) -> Tokens:
    items = _items(tokens)
    if not _nested(tokens):
        items = items * at.batch
    if len(items) != at.batch:
        raise InputError(f"{name} has {len(items)} lists for {at.batch} batch items")
    return tuple(_padded(words, item, name, count, what, at) for item, words in enumerate(items))


def _padded(
    words: Sequence[str], item: int, name: str, count: int, what: str, at: Positions
) -> tuple[str, ...]:
    """The words of one item; padding, which `lengths` tells, needs none."""
    if len(words) == count:
        return tuple(words)
    if at.lengths is not None and len(words) == at.lengths[item]:
        return (*words, *[_PADDING] * (count - len(words)))
    where = f" at item {item}" if at.batch > 1 else ""
    raise InputError(
        f"{name}{where} has length {len(words)}, and there are {count} {what}",
        hint="give one token each, or none at all",
    )


def _nested(tokens: Any) -> bool:
    return bool(tokens) and not isinstance(tokens[0], str)


def _items(tokens: Any) -> list[Sequence[str]]:
    return list(tokens) if _nested(tokens) else [tokens]


def _numbers(count: int, batch: int) -> Tokens:
    return (tuple(map(str, range(count))),) * batch


def _shared(at: Positions, *given: Any | None) -> tuple[Finding, ...]:
    if at.batch == 1 or all(tokens is None or _nested(tokens) for tokens in given):
        return ()
    return (note("tokens-shared", f"one list of tokens names those of all {at.batch} items"),)
