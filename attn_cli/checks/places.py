"""Words for places: which batch item, head, query and key, and lists that stay short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Place
from attn_cli.core.inputs import AttentionInputs

SHOWN = 5
LONGEST = 40  # characters of a token that a sentence shows


def first_place(hit: NDArray[np.bool_], stage: str | None = None) -> Place:
    """The first True of a (B, H, L) or (B, H, L, S) array as a place."""
    index = [int(i) for i in np.unravel_index(int(hit.argmax()), hit.shape)]
    names = ("batch", "head", "query", "key")
    return Place(stage=stage, layer=0, **dict(zip(names, index, strict=False)))


def rows_in_words(hit: NDArray[np.bool_], inputs: AttentionInputs) -> str:
    """The rows of a (B, H, L) array that are True: `head 0, query 1 'cat'; …` and how many more."""
    batch, heads, _ = hit.shape
    coordinates = np.argwhere(hit)
    if heads > 1 and (hit == hit[:, :1]).all():  # the same rows in every head
        coordinates = np.argwhere(hit[:, 0])[:, [0, 0, 1]]
        coordinates[:, 1] = -1
    parts = [
        _row(inputs, *map(int, row), batches=batch, heads=heads) for row in coordinates[:SHOWN]
    ]
    more = len(coordinates) - len(parts)
    return "; ".join(parts) + (f" and {more} more" if more else "")


def _row(inputs: AttentionInputs, b: int, h: int, q: int, *, batches: int, heads: int) -> str:
    words = []
    if batches > 1:
        words.append(f"item {b}")
    if heads > 1:
        words.append("every head" if h < 0 else f"head {h}")
    words.append(f"query {query_name(inputs, b, q)}")
    return ", ".join(words)


def query_name(inputs: AttentionInputs, batch: int, query: int) -> str:
    """`3 'cat'`, or the bare index where the queries have no tokens."""
    return _named(query, inputs.labels.query[batch] if inputs.labels else ())


def key_name(inputs: AttentionInputs, batch: int, key: int) -> str:
    """`3 'cat'`, or the bare index where the keys have no tokens."""
    return _named(key, inputs.labels.key[batch] if inputs.labels else ())


def _named(index: int, tokens: Sequence[str]) -> str:
    if not tokens:
        return str(index)
    token = tokens[index]
    return f"{index} {token if len(token) <= LONGEST else token[: LONGEST - 1] + '…'!r}"


_TOKEN, _QUERY, _KEY = ("batch", "query"), ("batch", "head", "query"), ("batch", "head", "key")
_AXES = {
    "x": _TOKEN,
    "x_positions": _TOKEN,
    "q": _QUERY,
    "q_rotated": _QUERY,
    "k": _KEY,
    "k_rotated": _KEY,
    "v": _KEY,
    "context": _QUERY,
    "merged": _TOKEN,
    "output": _TOKEN,
}


def axes_of(stage: str, where: tuple[int, ...]) -> dict[str, int]:
    """The coordinates of a stage's element by the names of a Place; a feature has none."""
    names = _AXES.get(stage, ("batch", "head", "query", "key"))
    return dict(zip(names, where, strict=False))


def place_in_words(inputs: AttentionInputs, stage: str, where: tuple[int, ...]) -> str:
    """`item 1, head 0, query 2 'cat', key 0 'the'`, less what there is only one of."""
    at = axes_of(stage, where)
    heads = inputs.kv_heads if _AXES.get(stage) is _KEY else inputs.shape[1]
    words = [f"item {at['batch']}"] if inputs.shape[0] > 1 else []
    words += [f"head {at['head']}"] if heads > 1 and "head" in at else []
    if "query" in at:
        words.append(f"query {query_name(inputs, at['batch'], at['query'])}")
    if "key" in at:
        words.append(f"key {key_name(inputs, at['batch'], at['key'])}")
    if len(where) > len(_AXES.get(stage, where)):
        words.append(f"feature {where[-1]}")
    return ", ".join(words)


def count(number: Any, one: str, many: str | None = None) -> str:
    """`1 row`, `3 rows`."""
    return f"{int(number):,} {one if number == 1 else many or one + 's'}"
