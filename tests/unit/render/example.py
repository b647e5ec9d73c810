"""A RunResult made by hand from plain NumPy, for the screens to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.inputs import Labels
from attn_cli.core.results import (
    HeadRow,
    InputSummary,
    Row,
    RunResult,
    ShownRow,
    TopKey,
    WeightsView,
)
from attn_cli.core.settings import Settings
from attn_cli.core.trace import Stage, StageShape, Trace

Array = NDArray[Any]
SCORES = ("batch", "head", "query", "key")

APPLE = np.array(
    [
        [0.9, 0.2, -0.5, 0.4, 2.0, -0.6, 1.2, 0.1],
        [-0.6, 2.8, 0.4, -1.1, 0.7, 0.9, 0.5, -0.4],
        [0.3, 0.9, 0.8, -0.2, 1.0, -0.8, 0.4, 0.9],
    ]
)


@dataclass(frozen=True)
class Case:
    """What a screen is made from: q, k, v of (B, H, L, d), what is visible, and the tokens."""

    q: Array
    k: Array
    v: Array
    visible: Array | None = None  # (L, S)
    tokens: Sequence[str] = ()
    key_tokens: Sequence[str] = ()
    x: Array | None = None
    findings: Sequence[Finding] = ()
    fine: Sequence[str] = ("every row sums to 1", "no empty rows", "nothing non-finite")
    cells: int = 24  # the most rows and columns of a picture
    rows: Sequence[int] = ()  # the queries that are shown; empty: all
    source: str = "apple.json"
    settings: dict[str, Any] = field(default_factory=dict)
    values: Sequence[str] = ()
    scaled: bool = True

    @property
    def shown_tokens(self) -> tuple[str, ...]:
        return tuple(self.tokens) or tuple(map(str, range(self.q.shape[2])))

    @property
    def shown_keys(self) -> tuple[str, ...]:
        if self.key_tokens:
            return tuple(self.key_tokens)
        same = self.k.shape[2] == len(self.tokens)
        return tuple(self.tokens) if same else tuple(map(str, range(self.k.shape[2])))


def split(x: Array, heads: int) -> Array:
    """(B, L, d_model) as (B, H, L, d)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def apple(**changes: Any) -> Case:
    """Three tokens, two heads, a causal mask."""
    heads = split(APPLE[None], 2)
    tokens = ("我", "喜欢", "苹果")
    visible = np.tri(3, dtype=bool)
    return replace(Case(heads, heads, heads, visible, tokens, x=APPLE[None]), **changes)


def random(shape: Sequence[int], seed: int = 0, keys: int | None = None, **changes: Any) -> Case:
    """Seeded q, k, v of (B, H, L, d)."""
    draw = np.random.default_rng(seed).normal
    batch, heads, length, width = shape
    q = draw(size=(batch, heads, length, width))
    k, v = draw(size=(2, batch, heads, keys or length, width))
    return replace(Case(q, k, v, source="qkv.npz"), **changes)


def result(case: Case) -> RunResult:
    """Attention on the case by the formula, in the shape that a workflow returns."""
    scores = case.q @ case.k.mT
    scaled = scores / np.sqrt(case.q.shape[-1]) if case.scaled else scores
    seen = (
        np.ones(scores.shape, bool) if case.visible is None else case.visible & (scores == scores)
    )
    masked = np.where(seen, scaled, -np.inf)
    top = masked.max(-1, keepdims=True, initial=-1e300)
    power = np.where(seen, np.exp(masked - top), 0)
    total = power.sum(-1, keepdims=True)
    weights = np.divide(power, total, out=np.zeros_like(power), where=total > 0)
    stages = {"scores": scores, "scaled": scaled, "masked": masked, "weights": weights}
    rows = [_row(case, weights, seen, at) for at in np.ndindex(weights.shape[:3])]
    shown = [ShownRow(r) for r in rows if not case.rows or r.query in case.rows]
    views = [_view(case, weights, seen, at) for at in np.ndindex(weights.shape[:2])]
    return RunResult(
        input=_summary(case),
        settings=_settings(case),
        engine="numpy",
        dtype="float64",
        device="cpu",
        shapes=_shapes(case),
        rows=tuple(rows),
        rows_total=len(rows),
        shown_rows=tuple(shown),
        heads=tuple(_head(rows, weights, at) for at in np.ndindex(weights.shape[:2])),
        views=tuple(views),
        views_left_out=0,
        findings=tuple(case.findings),
        values={name: Stage(stages[name], SCORES, "float64") for name in case.values},
        trace=cast(Trace, None),  # no screen reads it
        labels=Labels((case.shown_tokens,) * len(case.q), (case.shown_keys,) * len(case.q))
        if case.tokens
        else None,
        fine=tuple(case.fine),
    )


def _row(case: Case, weights: Array, seen: Array, at: tuple[int, ...]) -> Row:
    row, visible = weights[at], int(seen[at].sum())
    entropy = float(-(row[row > 0] * np.log(row[row > 0])).sum())
    best = np.argsort(-row, kind="stable")[: min(3, visible)]
    empty = visible == 0
    numbers = {
        "visible_keys": float(visible),
        "sum": float(row.sum()),
        "entropy": np.nan if empty else entropy,
        "normalized_entropy": np.nan if visible < 2 else entropy / np.log(visible),
        "effective_keys": np.nan if empty else float(np.exp(entropy)),
        "max_weight": np.nan if empty else float(row.max()),
        "mean_distance": np.nan if empty else float((row * abs(np.arange(row.size) - at[2])).sum()),
        "first_key_weight": np.nan if empty else float(row[0]),
    }
    tops = tuple(TopKey(int(key), case.shown_keys[key], float(row[key])) for key in best)
    return Row(at[0], at[1], at[2], case.shown_tokens[at[2]], numbers, tops, empty)


def _head(rows: Sequence[Row], weights: Array, at: tuple[int, ...]) -> HeadRow:
    mine = [row for row in rows if (row.batch, row.head) == at and not row.empty]
    means = {
        name: float(np.mean([row.numbers[name] for row in mine if not np.isnan(row.numbers[name])]))
        for name in (mine[0].numbers if mine else ())
    }
    flat = weights[at[0]] / np.linalg.norm(weights[at[0]], axis=-1, keepdims=True).clip(1e-300)
    others = [h for h in range(weights.shape[1]) if h != at[1]]
    cosines = [float((flat[h] * flat[at[1]]).sum(-1).mean()) for h in others]
    empty = sum(row.empty for row in rows if (row.batch, row.head) == at)
    return HeadRow(at[0], at[1], means, float(np.mean(cosines)) if cosines else np.nan, empty)


def _cover(count: int, most: int) -> tuple[range, ...]:
    size = -(-count // most)
    return tuple(range(i, min(i + size, count)) for i in range(0, count, size))


def _view(case: Case, weights: Array, seen: Array, at: tuple[int, ...]) -> WeightsView:
    queries, keys = (_cover(n, case.cells) for n in weights.shape[2:])
    tiles = [[(weights[at][np.ix_(q, k)], seen[at][np.ix_(q, k)]) for k in keys] for q in queries]
    counts = np.array([[s.sum() for _, s in line] for line in tiles])
    cells = np.array([[w.sum() for w, _ in line] for line in tiles]) / counts.clip(1)
    one = all(len(cover) == 1 for cover in (*queries, *keys))
    return WeightsView(
        batch=at[0],
        head=at[1],
        cells=cells,
        hidden=counts == 0,
        sums=weights[at].sum(-1) if one else np.full(len(queries), np.nan),
        query_ranges=queries,
        key_ranges=keys,
        query_labels=case.shown_tokens,
        key_labels=case.shown_keys,
    )


def _summary(case: Case) -> InputSummary:
    batch, _, queries, d_k = case.q.shape
    return InputSummary(
        source=case.source,
        format=case.source.rsplit(".")[-1],
        kind="q, k, v" if case.x is None else "token vectors",
        batch=batch,
        queries=queries,
        keys=case.k.shape[2],
        d_model=None if case.x is None else case.x.shape[-1],
        d_k=d_k,
        d_v=case.v.shape[-1],
        precision="float64",
        sha256="0" * 64,
        tokens=bool(case.tokens),
    )


def _settings(case: Case) -> Settings:
    fields: dict[str, Any] = {
        "heads": case.q.shape[1],
        "kv_heads": case.k.shape[1],
        "scale": 1 / float(np.sqrt(case.q.shape[-1])),
        "softcap": None,
        "mask": None if case.visible is None else "causal",
        "align": None,
        "layout": "bhld",
    }
    return Settings(**(fields | case.settings))


def _shapes(case: Case) -> tuple[StageShape, ...]:
    batch, heads, queries, d_k = case.q.shape
    keys, d_v = case.v.shape[2:]
    square = (batch, heads, queries, keys)
    split = "given" if case.x is None else "x split into heads"
    steps: list[tuple[str, tuple[str, ...], tuple[int, ...], str]] = [
        ("q", ("batch", "head", "query", "d_k"), case.q.shape, split),
        ("k", ("batch", "head", "key", "d_k"), case.k.shape, split),
        ("v", ("batch", "head", "key", "d_v"), case.v.shape, split),
        ("scores", SCORES, square, "q · kᵀ"),
        ("scaled", SCORES, square, f"scores ÷ √{d_k}"),
        ("masked", SCORES, square, "−∞ where hidden"),
        ("weights", SCORES, square, "softmax over key"),
        ("context", ("batch", "head", "query", "d_v"), (batch, heads, queries, d_v), "weights · v"),
    ]
    if case.visible is None:
        steps = [step for step in steps if step[0] != "masked"]
    if case.x is not None:
        axes = ("batch", "query", "d_model")
        steps.insert(0, ("x", axes, case.x.shape, "token vectors"))
        steps.append(("merged", axes, case.x.shape, "heads side by side"))
        steps.append(("output", axes, case.x.shape, "= merged"))
    return tuple(StageShape(name, axes, shape, "float64", how) for name, axes, shape, how in steps)
