"""Findings of `attn check numerics`: what is not finite, what saturates, what a precision loses."""

from __future__ import annotations

from collections.abc import Iterator

from attn_cli.checks.numerics.moments import by_chance
from attn_cli.checks.places import count
from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.results_numerics import (
    Culprit,
    Gradients,
    Hunt,
    PrecisionFigures,
    Saturation,
    ScaleFigures,
    Thresholds,
)
from attn_cli.core.rounding import PRECISIONS
from attn_cli.core.trace import ALL_STAGES

# What makes the check fail, unless it is allowed.
FAILING = ("nonfinite", "hidden-nonfinite", "empty-row", "nonfinite-gradient", "saturated")


def hunt_findings(hunt: Hunt) -> Iterator[Finding]:
    """The first stage that is not finite, rows that see no key, and fills that became −inf."""
    first, culprit = hunt.first, hunt.culprit
    if first is not None and culprit is not None:
        there = f", the first at {first.words}" if first.words else ""
        place = first.first or Place(stage=first.stage)
        yield Finding(
            "nonfinite",
            "error",
            f"{first.stage} is the first stage that is not finite in {hunt.dtype}: "
            f"{_kinds(first.nan, first.inf)} of {first.total:,} numbers{there}; {culprit.words}. "
            f"{_what_helps(culprit)}",
            _in_layer(place, hunt.layer),
        )
    if hunt.empty_rows:
        rows = count(hunt.empty_rows, "row")
        yield Finding(
            "empty-row",
            "warning",
            f"{rows} {'sees' if hunt.empty_rows == 1 else 'see'} no key, the first at "
            f"{hunt.first_empty_words}: softmax of −∞ alone is NaN, in the gradient too; here "
            "weights, output and gradient are 0. Set such rows to 0 after the softmax",
            _in_layer(hunt.first_empty or Place(), hunt.layer),
        )
    if hunt.on_the_way:
        yield _on_the_way(hunt)
    if hunt.fills:
        yield note(
            "fill-overflow",
            f"{count(hunt.fills, 'finite fill')} of the mask "
            f"{'is' if hunt.fills == 1 else 'are'} −∞ in {hunt.dtype}: "
            f"the key is hidden all the same",
            Place(stage="masked", layer=hunt.layer),
        )


def _on_the_way(hunt: Hunt) -> Finding:
    """Scores that fit, and whose sums do not fit before they are complete."""
    one = hunt.on_the_way == 1
    fit, sums = ("fits", "its sum passes") if one else ("fit", "their sums pass")
    where = f"{'at' if one else 'the first at'} {hunt.first_on_the_way}"
    return Finding(
        "sum-on-the-way",
        "warning",
        f"{count(hunt.on_the_way, 'score')} {fit} {hunt.dtype}, but {sums} "
        f"{PRECISIONS[hunt.dtype].largest:.6g} on the way, {where}: finite where products are "
        f"summed in float32, as here, inf or NaN in a kernel that sums them in {hunt.dtype}. "
        "Scaling q first makes them smaller",
        Place(stage="scores", layer=hunt.layer),
    )


def gradient_findings(gradients: Gradients, hunt: Hunt) -> Iterator[Finding]:
    """The first gradient that is not finite, and what clipping makes of the others."""
    first = gradients.first
    if first is not None:
        made = f"{_kinds(first.nan, first.inf)} of {first.total:,} numbers, the first at"
        message = (
            f"the gradient of {first.name} is the first that is not finite in {gradients.dtype}: "
            f"{made} {first.words}; the forward pass is finite, so the way back overflowed. "
            "What helps: scale the loss down, or keep it in bfloat16 or float32"
            if hunt.first is None
            else f"the gradients are not finite either, that of {first.name} first: {made} "
            f"{first.words}"
        )
        yield Finding("nonfinite-gradient", "error", message, _of_gradient(first.name, hunt.layer))
    clipping = gradients.clipping
    if clipping is not None and clipping.nan_after > clipping.bad_before:
        yield Finding(
            "clipping",
            "warning",
            f"clipping does not help: {clipping.bad_before:,} of {clipping.total:,} gradient "
            f"numbers are not finite, so their norm is {_named(clipping.norm)}, and after "
            f"clip_grad_norm_ {clipping.nan_after:,} are NaN; look for the first NaN, or skip "
            "the step",
            Place(layer=hunt.layer),
        )


def saturation_findings(found: Saturation, dtype: str, thresholds: Thresholds) -> Iterator[Finding]:
    """Rows that give one key nearly everything, gradients with and without the scale, overflow."""
    own = next(one for one in found.scales if one.given)
    if own.saturated.value > thresholds.saturated:
        yield _saturated(found, own, thresholds)
    yield from _on_gradients(found)
    here = next(one for one in found.precisions if one.given and one.dtype == dtype)
    for other in found.precisions:
        if other.given and _worse(other, here):
            yield _elsewhere(other, dtype, found.layer)
    if found.rows_seen < found.rows_total:
        yield note(
            "sampled",
            f"figures and gradients are of {found.rows_seen:,} of {found.rows_total:,} rows, at "
            "even distances; the search for NaN looked at all",
            Place(layer=found.layer),
        )


def _saturated(found: Saturation, own: ScaleFigures, thresholds: Thresholds) -> Finding:
    """Rows beyond the share: a warning, unless they are so few that chance may bring them."""
    hit = round(own.saturated.value * own.rows)
    chance = by_chance(hit, own.rows, thresholds.saturated)
    words = (
        f"{hit:,} of {count(own.rows, 'row')} with a choice ({own.saturated.value:.1%}) "
        f"{'gives' if hit == 1 else 'give'} one key more than {thresholds.max_weight} of the "
        f"weight ({own.label}): "
    )
    place = Place(stage="weights", layer=found.layer)
    if chance <= thresholds.chance:
        return Finding("saturated", "warning", words + _why_saturated(found, own), place)
    so_few = f"were {thresholds.saturated:.2g} of all rows so, as many would be in {chance:.0%} of "
    return note(
        "saturated-few",
        f"{words}{so_few}such samples, so it does not fail; more rows would tell",
        place,
    )


def _worse(other: PrecisionFigures, here: PrecisionFigures) -> bool:
    """Whether another precision loses scores or rows that the one looked at does not."""
    return other.nonfinite > here.nonfinite or other.stable_lost > here.stable_lost


def _why_saturated(found: Saturation, own: ScaleFigures) -> str:
    """What the spread of the scaled scores says of the cause."""
    scaled = found.spreads[-1].deviation.value
    root = next((one for one in found.scales if one.label.startswith("÷")), None)
    if root is not None and not root.given and root.saturated.value < 0.01:
        asked = "Is the scale missing?" if own.scale == 1 else f"Is {own.label} what was meant?"
        return (
            f"the scaled scores have standard deviation {scaled:.3g}; {root.label} leaves "
            f"{root.saturated.value:.1%}. {asked}"
        )
    return (
        f"the scaled scores have standard deviation {scaled:.3g}. A head that copies one token is "
        "meant to do this; before training it says that q and k are too large"
    )


def _on_gradients(found: Saturation) -> Iterator[Finding]:
    """What the scale does to the gradient of q: measured, for it does not vanish in general."""
    by_label = {one.label: one for one in found.scales}
    bare = by_label.get("no scale")
    scaled = next((one for one in found.scales if one.label.startswith("÷")), None)
    if bare is None or scaled is None or not bare.rows or not scaled.gradient_median > 0:
        return
    mean, median = _ratios(bare, scaled)
    moved = "falls" if median < 1 else "grows"
    yield note(
        "gradient-and-scale",
        f"without the scale the gradient of the output with respect to q has {mean:.3g} times the "
        f"mean norm and {median:.3g} times the median norm that it has with {scaled.label} "
        f"(n = {count(bare.rows, 'row')}): the median {moved}",
        Place(stage="q", layer=found.layer),
    )


def _ratios(bare: ScaleFigures, scaled: ScaleFigures) -> tuple[float, float]:
    return (
        bare.gradient_mean / scaled.gradient_mean,
        bare.gradient_median / scaled.gradient_median,
    )


def _elsewhere(figures: PrecisionFigures, dtype: str, layer: int) -> Finding:
    """What would go wrong in a precision that this is not about."""
    what = (
        f"{count(figures.nonfinite, 'score')} of {figures.pairs:,} would overflow "
        f"(limit {figures.limit:.6g})"
        if figures.nonfinite
        else f"{count(figures.stable_lost, 'row')} would be NaN"
    )
    return Finding(
        f"{figures.dtype}-overflow",
        "warning",
        f"in {figures.dtype} {what}; this check is about {dtype}, and --dtype {figures.dtype} "
        "says where",
        Place(stage="scores", layer=layer),
    )


def _of_gradient(name: str, layer: int) -> Place:
    return Place(stage=name if name in ALL_STAGES else None, layer=layer)


def _what_helps(culprit: Culprit) -> str:
    """The first remedy that leaves every stage finite where remedies were run, else the usual."""
    if not culprit.attempts:
        return f"What helps: {culprit.fix}"
    worked = next((each for each in culprit.attempts if each.first is None), None)
    failed = [f"{each.what}: {each.first} is not finite even then" for each in culprit.attempts]
    if worked is None:
        return (
            f"Nothing that was tried is enough ({'; '.join(failed)}): smaller numbers must come in"
        )
    first = culprit.attempts[0]
    if worked is first:
        what = "" if first.what == culprit.fix else f"{first.what}; "
        return f"What helps: {culprit.fix} (tried: {what}every stage is finite then)"
    return f"What helps: {worked.what} (tried: every stage is finite then; {failed[0]})"


def _kinds(nan: int, inf: int) -> str:
    parts = [f"{number:,} {word}" for number, word in ((nan, "NaN"), (inf, "inf")) if number]
    return " and ".join(parts)


def _named(value: float) -> str:
    return "NaN" if value != value else f"{value:g}"


def _in_layer(place: Place, layer: int) -> Place:
    return Place(place.stage, layer, place.batch, place.head, place.query, place.key)
