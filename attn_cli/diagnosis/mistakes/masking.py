"""Mistakes in which keys are hidden: triangles, windows, polarity, axes, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Setting, Step, Work
from attn_cli.diagnosis.meaning import offset, own_mask
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, Variants, one, where

# How source text puts a mask (batch, tokens) on the axis of the queries.
_QUERY_AXIS = (
    r"(None|np\.newaxis), *:, *(None|np\.newaxis)|unsqueeze\((-1|3)\)|-1, *1\)|\[\.\.\., *None\]"
)
Triangle = Callable[[np.ndarray[tuple[int, ...], np.dtype[np.int64]]], BoolArray]


def causal(setting: Setting) -> bool:
    return setting.plan.intent.causal


def own_masked(setting: Setting) -> bool:
    return setting.own_mask


def hides(setting: Setting) -> bool:
    return setting.hides


def _hides_and_causal(setting: Setting) -> bool:
    return setting.hides and setting.own_mask


def _per_item(setting: Setting) -> bool:
    return setting.mask is not None and setting.hides and "B" in setting.mask.axes


def _padding(setting: Setting) -> bool:
    return _per_item(setting) and setting.mask is not None and "L" not in setting.mask.axes


def _windowed(setting: Setting) -> bool:
    return setting.plan.intent.window is not None


def _later(work: Work) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(L, S): by how many positions a key stands behind its query."""
    L, S = work.lengths
    start = offset(work.setting.plan.intent, L, S)
    distance: np.ndarray[tuple[int, ...], np.dtype[np.int64]] = (
        np.arange(S)[None, :] - np.arange(L)[:, None] - start
    )
    return distance


def _triangle(visible: Triangle) -> Step:
    """The code's own mask with another triangle in the place of the causal one."""

    def own(work: Work) -> None:
        later = _later(work)
        seen = visible(later)
        window = work.setting.plan.intent.window
        if window is not None:
            seen = seen & (np.abs(later) < window)
        work.own = seen[None, None]

    return own


def _leaks(setting: Setting) -> Iterator[Variant]:
    yield Variant("k ≤ q + 1", {"own": _triangle(lambda later: later <= 1)})
    yield Variant("k ≤ q + 2", {"own": _triangle(lambda later: later <= 2)})


def _reverses(setting: Setting) -> Iterator[Variant]:
    yield Variant("k ≥ q", {"own": _triangle(lambda later: later >= 0)})
    yield Variant("k > q", {"own": _triangle(lambda later: later > 0)})


def _no_own(work: Work) -> None:
    """No mask of its own."""


def _own_unless(passed: bool) -> Step:
    """The code's own mask in the calls without (or with) a mask that is passed."""

    def own(work: Work) -> None:
        if (work.question.keep is not None) != passed:
            right.own(work)

    return own


def _missing(setting: Setting) -> Iterator[Variant]:
    yield Variant("never", {"own": _no_own})
    if setting.hides:
        yield Variant("not where no mask is given", {"own": _own_unless(passed=False)})


def _no_passed(work: Work) -> None:
    """The mask that is given has no effect."""


def _no_effect(setting: Setting) -> Iterator[Variant]:
    if setting.hides:
        yield Variant("the mask that is given", {"passed": _no_passed})
    if setting.hides and setting.own_mask:
        yield Variant("every mask", {"passed": _no_passed, "own": _no_own})


def _replaces(setting: Setting) -> Iterator[Variant]:
    yield Variant("", {"own": _own_unless(passed=True)})


def top_left(with_window: bool) -> Step:
    """In every call the first query sees the first key alone."""

    def own(work: Work) -> None:
        _, S = work.lengths
        firsts = np.concatenate([np.arange(count) for count in work.steps])
        ends = np.repeat(np.cumsum(work.steps), work.steps)
        later = np.arange(S)[None, :] - firsts[:, None]
        seen = later <= 0
        if work.question.steps:
            seen = seen & (np.arange(S)[None, :] < ends[:, None])
        if with_window and (window := work.setting.plan.intent.window) is not None:
            seen = seen & (later > -window)
        work.own = seen[None, None]

    return own


def _several_lengths(setting: Setting) -> bool:
    """A plan in which queries are fewer than keys, and that says how they line up."""
    intent = setting.plan.intent
    return intent.causal and (setting.cached or intent.align == "lower-right")


def _window(size: int) -> Step:
    """A window that keeps `size` more keys than was said."""

    def own(work: Work) -> None:
        intent = work.setting.plan.intent
        assert intent.window is not None
        later = _later(work)
        seen = later > -(intent.window + size)
        seen &= later <= 0 if intent.causal else later < intent.window + size
        if intent.causal and work.question.steps:
            L, S = work.lengths
            seen &= own_mask(intent, L, S, work.question.steps) | (later < 0)
        work.own = seen[None, None]

    return own


def _windows(setting: Setting) -> Iterator[Variant]:
    yield Variant("one key more", {"own": _window(1)})
    yield Variant("one key less", {"own": _window(-1)})


def _invert(work: Work) -> None:
    if work.question.keep is not None:
        work.passed = ~work.question.keep


def _on_queries(work: Work) -> None:
    keep = work.question.keep
    work.passed = None if keep is None else keep.swapaxes(-2, -1)


def _shifted(setting: Setting) -> Iterator[Variant]:
    """A finite number added to whole rows moves no weight: it hides nothing at all."""
    yield Variant("", {"passed": _on_queries})
    if re.search(_QUERY_AXIS, setting.source):
        yield Variant("added to whole rows, which changes nothing", {"passed": _no_passed})


def _misplaced(rank: int) -> Step:
    """(batch, keys) as it broadcasts by itself: on (queries, keys), or on (heads, 1, keys)."""

    def passed(work: Work) -> None:
        if (keep := work.question.keep) is None:
            return
        if keep.shape[2] > 1:  # (batch, queries, keys) on (heads, queries, keys)
            work.passed = keep[:, 0][None]
        elif rank == 2:
            work.passed = keep[:, 0, 0][None, None]
        else:
            work.passed = keep[:, 0][None]

    return passed


def _wrong_axes(setting: Setting) -> Iterator[Variant]:
    yield Variant("(batch, keys) is taken as (queries, keys)", {"passed": _misplaced(2)})
    yield Variant("the batch is taken for the heads", {"passed": _misplaced(3)})


def _head_order(work: Work) -> None:
    if (keep := work.question.keep) is None:
        return
    B, H, _, _ = work.question.shape
    flat = np.arange(B * H).reshape(B, H) % B
    work.passed = keep[flat, 0]


def _capped_hide(work: Work) -> None:
    """Masked first, capped afterwards."""
    right.hide(work)
    right.cap(work)


def _no_cap(work: Work) -> None:
    """Not here."""


def _capped(setting: Setting) -> bool:
    return setting.plan.intent.softcap is not None and (setting.own_mask or setting.hides)


def _lower(variants: Variants) -> Variants:
    return where(causal, variants)


CAUSAL_MISSING = Mistake(
    "causal_missing",
    "mask",
    "the future is not hidden",
    "Causal was asked for, and tokens see what comes after them.",
    "hide the keys with k > q in every call",
    "the code's own triangle is missing, the mask that is given works",
    where(own_masked, _missing),
)
CAUSAL_EXCLUDES_SELF = Mistake(
    "causal_excludes_self",
    "mask",
    "the triangle leaves out the diagonal: a token cannot see itself",
    "tril(diagonal=-1) hides the query's own key, and the first row sees nothing.",
    "tril() with diagonal=0",
    "the first row is empty",
    _lower(one(own=_triangle(lambda later: later < 0))),
)
CAUSAL_LEAKS_NEXT = Mistake(
    "causal_leaks_next",
    "mask",
    "the triangle starts a diagonal too late: a token sees its successor",
    "triu(diagonal=2) hides one key too few; a language model then copies its answer.",
    "hide triu(diagonal=1)",
    "moving token q + 1 moves row q, moving later ones does not",
    _lower(_leaks),
)
CAUSAL_REVERSED = Mistake(
    "causal_reversed",
    "mask",
    "the visible triangle is the upper one: tokens see the future only",
    "The mask keeps what it should hide.",
    "keep the lower triangle, tril()",
    "the last row sees itself alone, the first one everything",
    _lower(_reverses),
)
CAUSAL_DROPPED_WITH_MASK = Mistake(
    "causal_dropped_with_mask",
    "mask",
    "as soon as a mask is given, the causal one is not applied",
    "Both have to hold: a token may see a key that is no padding and no future.",
    "keep = causal & mask",
    "right without a mask",
    where(_hides_and_causal, _replaces),
)
CAUSAL_TOP_LEFT_WITH_CACHE = Mistake(
    "causal_top_left_with_cache",
    "mask",
    "with fewer queries than keys the triangle is aligned at the top left",
    "is_causal=True lets query 0 see key 0 alone; a new token then sees only the oldest keys.",
    "query i sees keys j ≤ i + (keys − queries): tril(diagonal=keys − queries)",
    "right where there are as many queries as keys",
    where(
        _several_lengths,
        lambda setting: (
            Variant("", {"own": top_left(with_window)}) for with_window in (False, True)
        ),
    ),
)
WINDOW_OFF_BY_ONE = Mistake(
    "window_off_by_one",
    "mask",
    "the window is one key off",
    "window(w) keeps exactly w keys, the query's own included: q − w < k ≤ q.",
    "distance < window, not ≤",
    "right while the sequence is shorter than the window",
    where(_windowed, _windows),
)
MASK_NO_EFFECT = Mistake(
    "mask_no_effect",
    "mask",
    "the mask has no effect",
    "masked_fill without the underscore returns a new tensor; thrown away, nothing is hidden.",
    "scores = scores.masked_fill(…)",
    "with and without the mask the results are equal",
    where(hides, _no_effect),
)
MASK_POLARITY_INVERTED = Mistake(
    "mask_polarity_inverted",
    "mask",
    "hidden and visible are exchanged",
    "SDPA and most code: True = may attend. nn.MultiheadAttention: True = blocked.",
    "invert the mask with ~ where the conventions meet",
    "changing a hidden key moves the output, changing a visible one does not",
    where(hides, one(passed=_invert)),
)
PAD_MASK_ON_QUERIES = Mistake(
    "pad_mask_on_queries",
    "mask",
    "the padding mask is put on the query axis",
    "Rows of padding are hidden, which changes nothing that counts; padded keys stay visible.",
    "mask[:, None, None, :]",
    "rows of padding become uniform or NaN, all others see the padding",
    where(_padding, _shifted),
    marks=_QUERY_AXIS,
)
MASK_BROADCAST_WRONG_AXIS = Mistake(
    "mask_broadcast_wrong_axis",
    "mask",
    "the mask of an item is broadcast over another axis",
    "(batch, keys) against (batch, queries, keys) is read as (queries, keys): an error, unless "
    "both happen to be equal, and then a wrong result.",
    "mask[:, None, None, :]",
    "it fails unless the batch has the size of the other axis",
    where(_per_item, _wrong_axes),
)
MASK_HEAD_BATCH_ORDER = Mistake(
    "mask_head_batch_order",
    "mask",
    "the mask is repeated in another order than the heads are folded into the batch",
    "repeat(heads, 1, 1) gives item 0, 1, 0, 1, …; the folded scores are item 0, 0, …, 1, 1, ….",
    "mask.repeat_interleave(heads, dim=0)",
    "right where all items have the same mask",
    where(_per_item, one(passed=_head_order)),
)
SOFTCAP_AFTER_MASK = Mistake(
    "softcap_after_mask",
    "mask",
    "the soft cap is applied after masking",
    "tanh turns −inf into −cap: hidden keys keep some weight.",
    "cap first, mask afterwards",
    "hidden keys weigh exp(−cap)",
    where(_capped, one(cap=_no_cap, hide=_capped_hide)),
)
