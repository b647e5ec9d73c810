"""Mistakes in how a mask hides: what is filled in, added or multiplied, and before what."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.formula import steps as right
from attn_cli.diagnosis.formula.work import Array, Setting, Step, Work
from attn_cli.diagnosis.mistakes.base import Mistake, Variant, Variants, where
from attn_cli.diagnosis.mistakes.masking import hides

SMALL = (0.0, -1.0, 1.0, -2.0, -5.0, -10.0, -20.0, -50.0, -100.0, 1e-3, -1e-3)
LARGE = (1e9, np.inf, 1e4, 1e30, 1e20)
Spoil = Callable[[Work, BoolArray], None]


def _masked(setting: Setting) -> bool:
    return setting.hides or setting.own_mask


def _which(setting: Setting) -> Iterator[str]:
    """Which masks may be done wrongly: the one that is passed, the code's own, or both."""
    if setting.hides:
        yield "passed"
    if setting.own_mask:
        yield "own"
    if setting.hides and setting.own_mask:
        yield "both"


def _wrongly(which: str, spoil: Spoil) -> Step:
    """Hides by `spoil` what `which` says, and the rest by −∞."""

    def hide(work: Work) -> None:
        wrong, fine = _sorted(work, which)
        if fine is not None:
            right.put(work, fine, -np.inf)
        if wrong is not None:
            spoil(work, wrong)

    return hide


def _sorted(work: Work, which: str) -> tuple[BoolArray | None, BoolArray | None]:
    """The mask that is done wrongly, and the one that is not."""
    if which == "passed":
        return work.passed, work.own
    if which == "own":
        return work.own, work.passed
    if work.own is None or work.passed is None:
        return (work.own if work.passed is None else work.passed), None
    return work.own & work.passed, None


def _in_each(spoil: Spoil, note: str = "") -> Variants:
    def variants(setting: Setting) -> Iterator[Variant]:
        for which in _which(setting):
            yield Variant(note, {"hide": _wrongly(which, spoil)})

    return variants


def _filled(value: float) -> Spoil:
    def spoil(work: Work, seen: BoolArray) -> None:
        right.put(work, seen, value)

    return spoil


def _added(value: float) -> Spoil:
    """`value` is added to hidden scores."""

    def spoil(work: Work, seen: BoolArray) -> None:
        shown = np.broadcast_to(seen, work.scores.shape)
        work.scores = work.scores + np.where(shown, 0, value).astype(work.scores.dtype)

    return spoil


def _too_small(setting: Setting) -> Iterator[Variant]:
    own = [-abs(value) for value in setting.constants if abs(value) <= 5000]
    own += [value for value in setting.constants if 0 < value < 1.5]
    cap = setting.plan.intent.softcap
    for value in dict.fromkeys((*SMALL, *own)):
        if cap is not None and value == -cap:
            continue  # a hidden score that was capped: a mistake of its own
        yield from _in_each(_filled(value), f"filled with {value:g}")(setting)
        if value < -1:  # −1 is the mask added as it is
            yield from _in_each(_added(value), f"{value:g} is added")(setting)


def _positive(setting: Setting) -> Iterator[Variant]:
    own = [abs(value) for value in setting.constants if abs(value) > 100]
    for value in dict.fromkeys((*LARGE, *own)):
        yield from _in_each(_filled(value), f"filled with {value:g}")(setting)
        yield from _in_each(_added(value), f"{value:g} is added")(setting)


def _as_number(work: Work, seen: BoolArray, *, as_passed: bool) -> Array:
    """The mask as 0 and 1: as it is passed, or 1 = visible."""
    spec = work.setting.mask
    hidden = as_passed and spec is not None and spec.means == "hidden"
    return work.arithmetic.cast(~seen if hidden else seen)


def _add_as_is(work: Work, seen: BoolArray) -> None:
    work.scores = work.scores + _as_number(work, seen, as_passed=True)


def _add_visible(work: Work, seen: BoolArray) -> None:
    work.scores = work.scores + _as_number(work, seen, as_passed=False)


def _multiply_visible(work: Work, seen: BoolArray) -> None:
    work.scores = work.scores * _as_number(work, seen, as_passed=False)


def _multiply_as_is(work: Work, seen: BoolArray) -> None:
    work.scores = work.scores * _as_number(work, seen, as_passed=True)


def _zero_times_inf(work: Work, seen: BoolArray) -> None:
    work.scores = work.scores + (1 - _as_number(work, seen, as_passed=False)) * -np.inf


def _either(first: Spoil, second: Spoil) -> Variants:
    def variants(setting: Setting) -> Iterator[Variant]:
        yield from _in_each(first)(setting)
        if setting.mask is not None and setting.mask.means == "hidden":
            yield from _in_each(second, "as it is passed")(setting)

    return variants


def _afterwards(which: str, *, renormalised: bool) -> dict[str, Step]:
    """The weights are masked instead of the scores."""

    def hide(work: Work) -> None:
        _, fine = _sorted(work, which)
        if fine is not None:
            right.put(work, fine, -np.inf)

    def late(work: Work) -> None:
        wrong, _ = _sorted(work, which)
        if wrong is not None:
            work.weights = work.weights * np.broadcast_to(wrong, work.weights.shape)
            if renormalised:
                work.weights = work.weights / work.arithmetic.total(work.weights)
        right.late(work)

    return {"hide": hide, "late": late}


def _late(renormalised: bool) -> Variants:
    def variants(setting: Setting) -> Iterator[Variant]:
        for which in _which(setting):
            yield Variant("", _afterwards(which, renormalised=renormalised))

    return variants


MASK_AFTER_SOFTMAX = Mistake(
    "mask_after_softmax",
    "mask",
    "weights are set to 0 after softmax and not renormalised",
    "Hidden keys have already taken their share: rows sum to less than 1.",
    "hide with −inf before softmax, or divide by the row's sum afterwards",
    "rows sum to less than 1, the ratios of visible weights are right",
    where(_masked, _late(renormalised=False)),
)
LATE_MASK_UNDERFLOW = Mistake(
    "late_mask_underflow",
    "mask",
    "weights are set to 0 after softmax and renormalised: 0/0 where scores are large",
    "By the formula that is right; but where a hidden key has by far the largest score, all "
    "visible weights have become 0, and the row is NaN.",
    "hide with −inf before softmax",
    "NaN in rows whose largest score is hidden, right everywhere else",
    where(_masked, _late(renormalised=True)),
    boundary=True,
)
MASK_MULTIPLIED = Mistake(
    "mask_multiplied",
    "mask",
    "the scores are multiplied by the 0/1 mask",
    "A hidden score becomes 0, which is an ordinary score: the key keeps its weight.",
    "masked_fill(mask == 0, −inf)",
    "a product with the mask in the source, rather than a fill",
    where(_masked, _either(_multiply_visible, _multiply_as_is)),
    marks=r"\* *\w*(mask|keep|valid|allow|vis|M\b)|\bmul_?\(",
)
MASK_FILL_TOO_SMALL = Mistake(
    "mask_fill_too_small",
    "mask",
    "hidden scores are replaced by a number that is not very negative",
    "1e-9, finfo.tiny or 0 are ordinary scores: hidden keys keep weight.",
    "fill with float('-inf') or torch.finfo(dtype).min",
    "a fill in the source, rather than a product with the mask",
    where(_masked, _too_small),
    marks=r"masked_fill|where\(|\[.*\] *=",
)
MASK_FILL_POSITIVE = Mistake(
    "mask_fill_positive",
    "mask",
    "hidden scores are replaced by a huge positive number",
    "Only the hidden keys are then used.",
    "fill with −inf, mind the sign",
    "rows that hide nothing are right, the others see hidden keys alone and alike",
    where(_masked, _positive),
)
MASK_ADDED_AS_IS = Mistake(
    "mask_added_as_is",
    "mask",
    "a mask of 0 and 1 is added to the scores",
    "It only moves a score by 1; an added mask has to hold 0 and −inf. SDPA adds every float mask.",
    "pass a bool mask, or turn it into 0 and −inf first",
    "the weights of visible keys are e times too large against the hidden ones",
    where(hides, _either(_add_visible, _add_as_is)),
)
MASK_ZERO_TIMES_INF = Mistake(
    "mask_zero_times_inf",
    "mask",
    "(1 − mask) · −inf is NaN wherever the mask is 1",
    "0 · inf is NaN: every visible key becomes NaN, and with it every row.",
    "masked_fill, or torch.where(mask, 0, −inf)",
    "everything is NaN as soon as a mask is given",
    where(_masked, _in_each(_zero_times_inf)),
)
