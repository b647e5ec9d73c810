"""Mistakes in positions: rotations, biases that grow with distance, and tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Array, Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where
from attn_cli.positions.rope import Rope


def _rotates(setting: Setting) -> bool:
    return setting.plan.intent.rope is not None


def _rotates_with_cache(setting: Setting) -> bool:
    return _rotates(setting) and setting.cached


def _has_alibi(setting: Setting) -> bool:
    return setting.plan.intent.alibi


def _left_padded(setting: Setting) -> bool:
    learned = setting.plan.intent.positions is not None
    return learned and setting.mask is not None and setting.mask.kind == "keep_pad_left"


def _query_only(work: Work) -> None:
    keys = work.k
    right.rotate(work)
    work.k = keys


def _key_only(work: Work) -> None:
    queries = work.q
    right.rotate(work)
    work.q = queries


def _either(setting: Setting) -> Iterator[Variant]:
    yield Variant("q is turned, k is not", {"rotate": _query_only})
    yield Variant("k is turned, q is not", {"rotate": _key_only})


def _mixed(angles: str) -> Step:
    """Angles laid out one way, features turned the other way."""

    def rotate(work: Work) -> None:
        rope = work.setting.plan.intent.rope
        assert rope is not None
        for letter in "qk":
            array = getattr(work, letter)
            setattr(work, letter, _turned(array, rope.base, angles))

    return rotate


def _turned(array: Array, base: float, angles: str) -> Array:
    half = array.shape[-1] // 2
    angle = np.arange(array.shape[-2])[:, None] * base ** (-np.arange(half) / half)
    if angles == "half":
        angle = np.concatenate([angle, angle], axis=-1)
        other = np.stack([-array[..., 1::2], array[..., ::2]], axis=-1).reshape(array.shape)
    else:
        angle = angle.repeat(2, -1)
        other = np.concatenate([-array[..., half:], array[..., :half]], axis=-1)
    cos, sin = np.cos(angle).astype(array.dtype), np.sin(angle).astype(array.dtype)
    turned: Array = array * cos + other * sin
    return turned


def _mixes(setting: Setting) -> Iterator[Variant]:
    note = "angles for halves, features turned as neighbours"
    yield Variant(note, {"rotate": _mixed("half")})
    note = "angles for neighbours, features turned as halves"
    yield Variant(note, {"rotate": _mixed("interleaved")})


def _other_pairs(work: Work) -> None:
    rope = work.setting.plan.intent.rope
    assert rope is not None
    other = Rope("half" if rope.layout == "interleaved" else "interleaved", rope.base)
    work.q = other.rotate(work.q, np.arange(work.q.shape[2]))
    work.k = other.rotate(work.k, np.arange(work.k.shape[2]))


def _restarted(keys: bool) -> Step:
    """In every call with a cache, positions start at 0 again."""

    def rotate(work: Work) -> None:
        rotation = work.question.inputs.rotation
        assert rotation is not None
        restarted = np.concatenate([np.arange(count) for count in work.steps])
        work.q = rotation.rotate(work.q, restarted)
        places = restarted if keys else np.arange(work.k.shape[2])
        work.k = rotation.rotate(work.k, places)

    return rotate


def _restarts(setting: Setting) -> Iterator[Variant]:
    yield Variant("for q and k", {"rotate": _restarted(keys=True)})
    yield Variant("for q alone", {"rotate": _restarted(keys=False)})


def _grows(work: Work) -> None:
    """The positions' bias with the other sign."""
    for array in right.biases(work)[:-1]:
        work.scores = work.scores + array
    if (made := right.position_bias(work)) is not None:
        work.scores = work.scores - made


def _count_padding(work: Work) -> None:
    table = work.setting.parameters.positions
    if table is not None:
        work.x_q = work.x_q + work.arithmetic.cast(table[: work.x_q.shape[1]])
        work.x_k = work.x_v = work.x_q


def _no_rotation(work: Work) -> None:
    """q and k as they are."""


ROPE_QUERY_ONLY = Mistake(
    "rope_query_only",
    "position",
    "only one of q and k is turned by its positions",
    "Turning both makes a score depend on the distance; turning one makes it depend on the "
    "absolute position.",
    "rotate q and k alike",
    "moving the whole sequence by some positions changes the output",
    where(_rotates, _either),
)
ROPE_MISSING = Mistake(
    "rope_missing",
    "position",
    "neither q nor k is turned by its positions",
    "The code is meant to rotate; without it, attention knows no order.",
    "rotate q and k before the product",
    "permuting the tokens that a query sees changes nothing",
    where(_rotates, one(rotate=_no_rotation)),
)
ROPE_LAYOUT_MIXED = Mistake(
    "rope_layout_mixed",
    "position",
    "the angles are laid out for one pairing of features, and the features turned by the other",
    "Each pair must be turned by one angle; mixed, the two numbers of a pair get different angles, "
    "and lengths are not kept.",
    "cat((a, a)) with rotate_half, or repeat_interleave(2) with neighbouring pairs: one of both",
    "a turned vector has another length",
    where(_rotates, _mixes),
)
ROPE_OTHER_PAIRS = Mistake(
    "rope_other_pairs",
    "position",
    "features are paired the other way than was said",
    "Halves (i, i + d/2) and neighbours (2i, 2i + 1) are both right for weights that were trained "
    "so, and wrong for the other.",
    "pair the features as the checkpoint does, or permute its weights",
    "wrong against the declared layout alone: distances count",
    where(_rotates, one(rotate=_other_pairs)),
)
ROPE_CACHE_POSITION = Mistake(
    "rope_cache_position",
    "position",
    "with a cache the rotation starts again at position 0",
    "A new token is turned as if it were the first one: its distances to the cached keys are "
    "wrong.",
    "start at the number of cached tokens",
    "one pass over all tokens is right, token by token is not",
    where(_rotates_with_cache, _restarts),
)
ALIBI_SIGN = Mistake(
    "alibi_sign",
    "position",
    "the linear bias grows with the distance",
    "Far keys are favoured; −slope · distance is to favour near ones.",
    "bias = −slope · (q − k)",
    "the weight of the first key grows with the length",
    where(_has_alibi, one(bias=_grows)),
)
POSITIONS_IGNORE_PADDING = Mistake(
    "positions_ignore_padding",
    "position",
    "positions are 0 … T−1 although the sequence is padded on the left",
    "The first real token then has the position of its padding, other than when it is alone.",
    "positions = (mask.cumsum(-1) − 1).clamp(min=0)",
    "an item alone, without its padding, gives another result",
    where(_left_padded, one(positions=_count_padding)),
)
