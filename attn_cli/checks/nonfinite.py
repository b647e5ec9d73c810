"""Findings about NaN and ±inf: the first stage that holds one, and those behind a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.nonfinite_origin import number_of, origin_findings
from attn_cli.checks.places import axes_of, count, place_in_words, query_name
from attn_cli.core.engine import Seen
from attn_cli.core.findings import Finding, Place
from attn_cli.core.inputs import FINITE_FILL, AttentionInputs
from attn_cli.core.trace import ALL_STAGES, SCORE_STAGES
from attn_cli.core.usage import covering, hidden_keys, seeing_queries, seen_keys, visible_block

Array = NDArray[Any]

KEY_STAGES = ("k", "v", "k_rotated")
ROWS = 64  # queries that are looked at at once


@dataclass(frozen=True, slots=True)
class Sighting:
    """The NaN and ±inf of one stage that take part: how many, and the first one's coordinates."""

    nan: int
    inf: int
    first: tuple[int, ...]


@dataclass(slots=True)
class NonFiniteWatch:
    """Watches every stage go by and remembers where NaN and ±inf are; hidden keys do not count.

    Nor does the −inf that a fill becomes in a narrow precision: it hides its key as it should.
    """

    inputs: AttentionInputs
    seen: dict[str, Sighting] = field(default_factory=dict)
    rows: int = 0  # rows whose context is not finite
    leaked: int = 0  # of those the ones that see nothing but finite keys and values
    empty_nan: bool = False  # whether the engine puts NaN into rows that see no key

    def __call__(self, stage: Seen) -> None:
        bad = ~np.isfinite(stage.array)
        if stage.visible is not None and bad.any():
            bad = self._without_empty(stage, bad)
        if stage.visible is not None and stage.stage in SCORE_STAGES:
            bad &= stage.visible
        elif stage.visible is not None and stage.stage in KEY_STAGES:
            keys = stage.visible.any(1)  # (H, S)
            bad &= np.asarray(keys.reshape(len(bad), -1, keys.shape[-1]).any(1))[..., None]
        if stage.stage == "masked" and bad.any() and self.inputs.additive is not None:
            bad &= ~(np.isneginf(stage.array) & (self.inputs.added(stage.batch) <= FINITE_FILL))
        if not bad.any():
            return
        if stage.stage == "context":
            self.rows += int(bad.any(-1).sum())
            self.leaked += self._leaked(stage, bad.any(-1))
        nan = int(np.isnan(stage.array[bad]).sum())
        earlier = self.seen.get(stage.stage)
        first = (stage.batch, *(int(i) for i in np.unravel_index(bad.argmax(), bad.shape)))
        self.seen[stage.stage] = Sighting(
            nan + (earlier.nan if earlier else 0),
            int(bad.sum()) - nan + (earlier.inf if earlier else 0),
            earlier.first if earlier else first,
        )

    def _without_empty(self, stage: Seen, bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What is not finite beside empty rows, of which another finding speaks."""
        assert stage.visible is not None
        empty: NDArray[np.bool_] = np.asarray(~stage.visible.any(-1))  # (H, L)
        if stage.stage in ("weights", "context"):
            self.empty_nan |= bool(np.isnan(stage.array[empty]).any())
        if stage.stage == "weights":
            return bad & ~empty[..., None]
        if stage.stage in ("context", "merged", "output") and self.empty_nan:
            return bad & ~np.asarray(empty.any(0))[:, None]  # an output projection mixes the heads
        return bad

    def _leaked(self, stage: Seen, lost: NDArray[np.bool_]) -> int:
        """How many of the rows (H, L) that are not finite see finite numbers alone."""
        if stage.visible is None:
            return 0
        inputs, b = self.inputs, stage.batch
        bad = ~(np.isfinite(inputs.k[b]).all(-1) & np.isfinite(inputs.v[b]).all(-1))  # (Hkv, S)
        if not bad.any():
            return 0
        bad = bad.repeat(inputs.shape[1] // inputs.kv_heads, 0)[:, None]
        sees = (stage.visible & bad).any(-1) | ~np.isfinite(inputs.q[b]).all(-1)
        return int((lost & ~sees).sum())


def nonfinite_findings(
    inputs: AttentionInputs, watch: NonFiniteWatch, *, dtype: str
) -> Iterator[Finding]:
    """An error for every input that brings NaN or inf, else for the first stage that makes one."""
    given = list(_given(inputs))
    yield from given
    if not given and watch.seen and not watch.leaked:
        yield _made(inputs, watch, dtype)
    if watch.rows:
        total = int(np.prod(inputs.shape[:3]))
        later = [name for name in ALL_STAGES if name in watch.seen]
        yield Finding(
            "nonfinite-output",
            "error",
            f"{watch.rows:,} of {count(total, 'output row')} {'is' if watch.rows == 1 else 'are'} "
            f"not finite; NaN or inf passes through {', '.join(later)}",
            Place(stage="context", layer=0, **axes_of("context", watch.seen["context"].first)),
        )
    yield from hidden_findings(inputs, watch.leaked)


def _given(inputs: AttentionInputs) -> Iterator[Finding]:
    """One finding an input array with a non-finite element that takes part."""
    lost = inputs.x is not None and not np.isfinite(inputs.x).all()
    if inputs.x is not None and lost:
        yield _in_vectors(inputs, inputs.x)
    if inputs.origin is not None:
        seen: NDArray[np.bool_] = np.asarray(used(inputs, "k").any(1))
        yield from origin_findings(inputs.origin, seen)
    elif not lost:
        for name in ("q", "k", "v"):
            array = getattr(inputs, name)
            bad = ~np.isfinite(array)
            if bad.any() and (bad := bad & used(inputs, name)[..., None]).any():
                yield _in_array(inputs, name, _kinds(array[bad]), bad)
    yield from _in_what_is_added(inputs)
    yield from _in_sinks(inputs)


def _in_what_is_added(inputs: AttentionInputs) -> Iterator[Finding]:
    """NaN and +inf of the bias and the additive mask, at keys that take part; −inf hides a key."""
    for name, stage in (("bias", "biased"), ("additive", "masked")):
        array = getattr(inputs, name)
        if array is None:
            continue
        bad: NDArray[np.bool_] = np.isnan(array) | (array == np.inf)
        if bad.any() and (first := _first_seen(inputs, bad)) is not None:
            yield _at(inputs, stage, _kinds(array[bad]), first)


def _first_seen(inputs: AttentionInputs, bad: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The first (b, h, q, k) that is bad and visible; `bad` broadcasts to the scores."""
    whole = np.broadcast_to(bad, inputs.shape)
    every = range(inputs.shape[3])
    for b in range(inputs.shape[0]):
        here: list[tuple[int, ...]] = []
        for rows in covering(inputs.shape[2], ROWS):
            seen = visible_block(inputs, b, rows, every) & whole[b, :, rows.start : rows.stop]
            for h in np.flatnonzero(seen.any((1, 2))).tolist():
                q, k = divmod(int(seen[h].argmax()), len(every))
                here.append((b, h, rows.start + q, k))
        if here:
            return min(here)
    return None


def _in_sinks(inputs: AttentionInputs) -> Iterator[Finding]:
    """NaN and +inf; a sink of −inf is none."""
    sinks = np.zeros(0) if inputs.sinks is None else inputs.sinks
    bad = np.isnan(sinks) | (sinks == np.inf)
    if bad.any():
        head = int(bad.argmax())
        yield Finding(
            "nonfinite",
            "error",
            f"sinks hold {_kinds(sinks[bad])}, the first at head {head}",
            Place(stage="weights", layer=0, head=head),
        )


def used(inputs: AttentionInputs, name: str) -> NDArray[np.bool_]:
    """(B, H, L) queries that see a key, or (B, Hkv, S) keys that a query sees."""
    array = getattr(inputs, name)
    taking_part = np.ones(array.shape[:3], bool)
    if inputs.mask is None and not inputs.hides_by_adding:
        return taking_part
    for batch in range(array.shape[0]):
        if name == "q":
            taking_part[batch] = seeing_queries(inputs, batch)
        else:
            taking_part[batch] = _shared(inputs, seen_keys(inputs, batch))
    return taking_part


def _shared(inputs: AttentionInputs, keys: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(H, S) → (Hkv, S): what holds for a key in any of the query heads that read it."""
    return np.asarray(keys.reshape(inputs.kv_heads, -1, keys.shape[-1]).any(1))


def _in_vectors(inputs: AttentionInputs, x: Array) -> Finding:
    bad = ~np.isfinite(x)
    batch, token, feature = (int(i) for i in np.unravel_index(bad.argmax(), x.shape))
    item = f"item {batch}, " if x.shape[0] > 1 else ""
    return Finding(
        "nonfinite",
        "error",
        f"x holds {_kinds(x[bad])}, the first at {item}token {query_name(inputs, batch, token)}, "
        f"feature {feature}",
        Place(stage="x", layer=0, batch=batch, query=token, key=None),
    )


def _in_array(inputs: AttentionInputs, stage: str, kinds: str, bad: NDArray[np.bool_]) -> Finding:
    where = tuple(int(i) for i in np.unravel_index(bad.argmax(), bad.shape))
    return _at(inputs, stage, kinds, where)


def _at(inputs: AttentionInputs, stage: str, kinds: str, where: tuple[int, ...]) -> Finding:
    what = {"biased": "the bias", "masked": "the mask"}.get(stage, stage)
    return Finding(
        "nonfinite",
        "error",
        f"{what} holds {kinds}, the first at {place_in_words(inputs, stage, where)}",
        Place(stage=stage, layer=0, **axes_of(stage, where)),
    )


def _made(inputs: AttentionInputs, watch: NonFiniteWatch, dtype: str) -> Finding:
    stage = next(name for name in ALL_STAGES if name in watch.seen)
    sighting = watch.seen[stage]
    kinds = number_of(sighting.nan, sighting.inf)
    place = place_in_words(inputs, stage, sighting.first)
    return Finding(
        "nonfinite",
        "error",
        f"{stage} is the first stage that is not finite: {kinds}, the first at {place}; "
        f"the input is finite, so {dtype} overflowed",
        Place(stage=stage, layer=0, **axes_of(stage, sighting.first)),
    )


def hidden_findings(inputs: AttentionInputs, leaked: int = 0) -> Iterator[Finding]:
    """Keys and values that hold NaN or inf and that some row does not see."""
    if inputs.mask is None and not inputs.hides_by_adding:
        return
    for name in ("k", "v"):
        array = getattr(inputs, name)
        hidden = ~np.isfinite(array).all(-1)  # (B, Hkv, S)
        if hidden.any():
            hidden &= _hidden_from_some(inputs)
        if hidden.any():
            where = tuple(int(i) for i in np.unravel_index(hidden.argmax(), hidden.shape))
            comes_to = (
                f"0 times it is NaN, which reaches {count(leaked, 'row')} that see no such key"
                if leaked
                else "it takes no part in the rows that do not see it, but PyTorch's "
                "scaled_dot_product_attention returns NaN there"
            )
            yield Finding(
                "hidden-nonfinite",
                "warning",
                f"{name} holds NaN or inf at {count(hidden.sum(), 'masked key')}, the first at "
                f"{place_in_words(inputs, name, where)}; {comes_to}",
                Place(stage=name, layer=0, **axes_of(name, where)),
            )


def _hidden_from_some(inputs: AttentionInputs) -> NDArray[np.bool_]:
    """(B, Hkv, S): keys that at least one row does not see."""
    hidden = [_shared(inputs, hidden_keys(inputs, b)) for b in range(inputs.shape[0])]
    return np.stack(hidden)


def _kinds(values: Array) -> str:
    nan = int(np.isnan(values).sum())
    return number_of(nan, values.size - nan)
