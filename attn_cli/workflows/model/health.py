"""health: each layer's heads on each text, and the alarms that last for several texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_heads import tower
from attn_cli.core.model_health import Health, LayerHealth, LayerText
from attn_cli.workflows.model.alarms import alarms_of

if TYPE_CHECKING:
    from attn_cli.models.hf.head_likeness import HeadLikeness, LikenessSums
    from attn_cli.models.hf.layer_kl import KlSums, LayerKl

Array = NDArray[Any]

CHANCE = 0.999  # a cosine by chance above this: rows so flat that nothing tells heads apart


def health(
    calls: Sequence[CallFacts],
    rows: Mapping[int, tuple[Array, BoolArray]],
    likeness: HeadLikeness,
    kl: LayerKl,
    *,
    texts: int,
    sustained: int,
) -> Health:
    """Of all calls; an alarm needs `sustained` texts in a row, or all where there are fewer.

    `rows` has of each call, by its order, the normalised entropies (B, H, L) and the rows (B, H, L)
    that count.
    """
    needed = min(sustained, texts)
    layers = tuple(
        _layer(facts, *rows[facts.order], likeness.sums[facts.place], kl.sums.get(facts.place))
        for facts in calls
    )
    found = tuple(alarm for layer in layers for alarm in alarms_of(layer, needed))
    return Health(texts=texts, needed=needed, layers=layers, alarms=found)


def _layer(
    facts: CallFacts, entropies: Array, rows: BoolArray, pairs: LikenessSums, kl: KlSums | None
) -> LayerHealth:
    by_text = _means(entropies, rows)  # (B, H)
    texts = tuple(_texts(by_text, rows, pairs, kl))
    return LayerHealth(
        place=facts.place,
        stack=tower(facts),
        layer=facts.layer,
        before=None if kl is None else kl.before,
        texts=texts,
        entropies=tuple(tuple(map(float, head)) for head in by_text.T),
    )


def _texts(
    by_text: Array, rows: BoolArray, pairs: LikenessSums, kl: KlSums | None
) -> Iterator[LayerText]:
    for item, heads in enumerate(by_text):
        cosine, chance = (
            _pair_mean(s[item], pairs.rows[item]) for s in (pairs.cosine, pairs.chance)
        )
        yield LayerText(
            item=item,
            median_entropy=_median(heads),
            cosine=cosine,
            cosine_chance=chance,
            likeness=(cosine - chance) / (1 - chance) if chance < CHANCE else float("nan"),
            kl=_kl(kl, "kl", item),
            kl_chance=_kl(kl, "chance", item),
            finite=bool(np.isfinite(heads[rows[item].any(-1)]).all()),
        )


def _means(values: Array, rows: BoolArray) -> Array:
    """(B, H): the mean over the rows that count; NaN where there are none or one is NaN."""
    count = rows.sum(-1)
    total = np.where(rows, values, 0.0).sum(-1, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _median(values: Array) -> float:
    """Over the heads that have a value; NaN without one."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if there.size else float("nan")


def _pair_mean(sums: Array, rows: Array) -> float:
    """The mean over rows and pairs of different heads; NaN where there is no pair."""
    upper = np.triu_indices(len(sums), 1)
    count = rows[upper].sum()
    return float(sums[upper].sum() / count) if count else float("nan")


def _kl(kl: KlSums | None, name: str, item: int) -> float:
    """A mean over the rows of one text."""
    if kl is None or not kl.rows[item]:
        return float("nan")
    return float(getattr(kl, name)[item] / kl.rows[item])
