"""Mistakes in what is projected, and by which matrix."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, one, where

_PACKED = ("fused", "fused_conv1d", "in_proj", "conv2d_fused", "mha")


def _projected(setting: Setting) -> bool:
    return setting.projected


def _with_context(setting: Setting) -> bool:
    return "context" in setting.plan.call.roles or "k" in setting.plan.call.roles


def _packed(setting: Setting) -> bool:
    spec = setting.plan.intent.weights
    return setting.projected and spec is not None and spec.type in _PACKED


def _borrowing(**matrices: str) -> Step:
    """Projects with other matrices: k="q" makes k with those of q."""

    def project(work: Work) -> None:
        held = dict(work.matrices)
        for letter, other in matrices.items():
            for kind in "wb":
                work.matrices[f"{kind}_{letter}"] = held.get(f"{kind}_{other}")
        right.project(work)

    return project


def _orders(setting: Setting) -> Iterator[Variant]:
    """Every order in which q, k and v can be taken from a packed matrix, but the right one."""
    for order in permutations("qkv"):
        if order != ("q", "k", "v"):
            taken = dict(zip(order, "qkv", strict=True))
            note = f"unpacked as {', '.join(order)}"
            yield Variant(note, {"project": _borrowing(**taken)})


def _packed_view(order: str) -> Step:
    """Reads the packed numbers of a token in another order of (3, head, feature)."""

    def project(work: Work) -> None:
        right.project(work)
        packed = np.concatenate([work.flat_q, work.flat_k, work.flat_v], axis=-1)
        sizes = {"3": 3, "h": work.heads, "d": packed.shape[-1] // (3 * work.heads)}
        axes = packed.reshape(*packed.shape[:2], *(sizes[letter] for letter in order))
        places = [2 + order.index(letter) for letter in "3hd"]
        parts = axes.transpose(places[0], 0, 1, *places[1:])
        work.flat_q, work.flat_k, work.flat_v = (
            part.reshape(*packed.shape[:2], -1) for part in parts
        )

    return project


def _interleaved(setting: Setting) -> Iterator[Variant]:
    for order, words in (("h3d", "(heads, 3, width)"), ("hd3", "(heads, width, 3)")):
        yield Variant(f"viewed as {words}", {"project": _packed_view(order)})


def _ignore_context(work: Work) -> None:
    right.sources(work)
    work.x_k = work.x_v = work.x_q


def _swap_context(work: Work) -> None:
    right.sources(work)
    work.x_q, work.x_k, work.x_v = work.x_k, work.x_q, work.x_q


KEY_USES_QUERY_PROJECTION = Mistake(
    "key_uses_query_projection",
    "projection",
    "the keys are made with the query weights",
    "q and k then live in one projection: scores are symmetric in self-attention, and w_k is "
    "never trained.",
    "make k with w_k",
    "w_k has no influence: change it and nothing moves",
    where(_projected, one(project=_borrowing(k="q"))),
)
VALUE_USES_KEY_PROJECTION = Mistake(
    "value_uses_key_projection",
    "projection",
    "the values are made with another projection's weights",
    "what is mixed is then what was meant for comparing; w_v is never trained.",
    "make v with w_v",
    "w_v has no influence: change it and nothing moves",
    where(
        _projected,
        lambda setting: (
            Variant(f"v is made with w_{other}", {"project": _borrowing(v=other)}) for other in "kq"
        ),
    ),
)
QKV_CHUNK_ORDER = Mistake(
    "qkv_chunk_order",
    "projection",
    "the packed projection is unpacked in another order than q, k, v",
    "A model trained by this code is as good, but the weights of a checkpoint, packed as "
    "[q | k | v], are taken for each other.",
    "unpack as q, k, v = packed.chunk(3, dim=-1), the order of the checkpoint",
    "a packed matrix is cut in the wrong order, rather than the product taken the wrong way round",
    where(_packed, _orders),
    marks=r"chunk|split|unbind|tensor_split|\[\s*:",
)
QKV_INTERLEAVED_LAYOUT = Mistake(
    "qkv_interleaved_layout",
    "projection",
    "the packed projection is read as (q, k, v) of each head in turn",
    "Its rows are [all q | all k | all v]; read head by head, most heads get parts of other "
    "heads' q, k and v.",
    "packed.view(B, T, 3, heads, width), with the 3 before the heads",
    "changing the rows of v moves the scores",
    where(_packed, _interleaved),
)
CONTEXT_IGNORED = Mistake(
    "context_ignored",
    "projection",
    "keys and values come from x although a context is given",
    "Cross-attention becomes self-attention; the other sequence has no influence.",
    "k and v from the context, q from x",
    "changing the context moves nothing",
    where(_with_context, one(sources=_ignore_context)),
    marks=r" if .*(context|memory|mem|kv|enc)",
)
CROSS_ATTENTION_SWAPPED = Mistake(
    "cross_attention_swapped",
    "projection",
    "queries come from the context, keys and values from x",
    "The output has a row for every token of the context instead of one for every query.",
    "q from x, k and v from the context",
    "the output has as many rows as the context has tokens",
    where(_with_context, one(sources=_swap_context)),
)
