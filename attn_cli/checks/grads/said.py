"""Said: what the gradients of some cases come to, as findings and as what holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.results_grads import (
    INPUT,
    CaseGrads,
    GroupSums,
    InputGrads,
    Norms,
    Reason,
    Spot,
    written,
)

CODES: dict[Reason, str] = {
    "differs": "gradient-wrong",
    "nan": "gradient-nan",
    "leak": "gradient-leaks",
    "missing": "gradient-missing",
    "gradcheck": "gradcheck",
    "imprecise": "gradient-undecided",
}


def said(cases: Sequence[CaseGrads], norms: Sequence[Norms]) -> tuple[Finding, ...]:
    """How it was measured, what the norms show, and every gradient that is not right."""
    found = [*_method(cases), *_sampled(cases), *(f for each in norms for f in _norms(each))]
    return (*found, *faults(cases))


def faults(cases: Sequence[CaseGrads]) -> tuple[Finding, ...]:
    """Every gradient that is not right, and every case in which nothing was compared."""
    found = []
    for case in cases:
        if case.why:
            words = f"{_of(case)}nothing was compared: {case.why}; attn check numerics says why"
            found.append(Finding("gradient-unchecked", "warning", words, Place(layer=case.layer)))
        found += [_wrong(case, part) for part in case.inputs if part.reason in CODES]
        found += [_group(case, part) for part in case.groups if part.verdict == "wrong"]
    return tuple(found)


def fine(cases: Sequence[CaseGrads]) -> tuple[str, ...]:
    """What holds of all that was checked, in words."""
    parts = [part for case in cases for part in case.inputs]
    groups = [part for case in cases for part in case.groups]
    words = []
    if parts and all(part.verdict == "right" for part in parts):
        gradients = "gradient is" if len(parts) == 1 else "gradients are"
        words.append(f"{len(parts)} {gradients} as finite differences say")
    zeros = sum(part.zeros for part in parts)
    if zeros and not any(part.not_zero for part in parts):
        words.append(f"exactly 0 at all {zeros:,} numbers of hidden keys, scores and empty rows")
    if groups and all(part.verdict == "right" for part in groups):
        words.append("shared heads get the sum over their query heads")
    return tuple(words)


def spot_words(spot: Spot) -> str:
    """`batch 0, head 1, query 2, d_k 3`."""
    return ", ".join(f"{axis} {index}" for axis, index in spot.at.items())


def _of(case: CaseGrads) -> str:
    """Which case a sentence is about; nothing where there is only the input."""
    if case.layer is not None:
        return f"layer {case.layer}: "
    return "" if case.name == INPUT else f"{case.name}: "


def _wrong(case: CaseGrads, part: InputGrads) -> Finding:
    spot, name = part.worst, written(part.name)
    at = f"at {spot_words(spot)}"
    numeric = f"{spot.numeric:.6g}"
    words = {
        "differs": f"the gradient of {name} is wrong: autograd says {spot.analytic:.9g}, finite "
        f"differences {spot.numeric:.9g} ± {spot.allowed:.1g}, {at}",
        "nan": f"the gradient of {name} is {spot.analytic}, where finite differences say "
        f"{numeric}, {at}",
        "leak": f"the gradient of {name} is {spot.analytic:.6g} and must be exactly 0, since no "
        f"output sees it, {at}; {part.not_zero:,} of {part.zeros:,} such numbers are not 0",
        "missing": f"no gradient arrives at {name}: autograd sees no path to it (detached?), where "
        f"finite differences say {numeric}, {at}",
        "gradcheck": f"the gradient of {name} is as finite differences say, but "
        f"torch.autograd.gradcheck objects: {part.gradcheck}",
        "imprecise": f"finite differences of {name} are uncertain by {spot.allowed:.1g}, too much "
        f"to judge its gradient: is the output smooth there? {at}",
    }[part.reason]
    words += _heads(case, part) + (f"; {part.like}" if part.like else "")
    severity = "warning" if part.verdict == "undecided" else "error"
    return Finding(CODES[part.reason], severity, _of(case) + words, _place(case, spot))  # type: ignore[arg-type]


def _heads(case: CaseGrads, part: InputGrads) -> str:
    """Through which heads of the output, where there are several."""
    if part.verdict != "wrong" or case.sizes["heads"] == 1 or not part.heads:
        return ""
    if len(part.heads) == case.sizes["heads"]:
        return "; through every head of the output"
    which = ", ".join(map(str, part.heads))
    return f"; through head{'s' if len(part.heads) > 1 else ''} {which} of the output"


def _group(case: CaseGrads, part: GroupSums) -> Finding:
    spot = part.worst
    words = (
        f"the gradient of a shared head of {part.name} is not the sum over its query heads: "
        f"{spot.analytic:.9g}, and the sum is {spot.numeric:.9g}, at {spot_words(spot)}"
    )
    return Finding("group-sum", "error", _of(case) + words, _place(case, spot))


def _place(case: CaseGrads, spot: Spot) -> Place:
    batch, head, query, key = map(spot.at.get, ("batch", "head", "query", "key"))
    return Place(layer=case.layer, batch=batch, head=head, query=query, key=key)


def _method(cases: Sequence[CaseGrads]) -> Iterator[Finding]:
    steps = [part.step for case in cases for part in case.inputs]
    if not steps:
        return
    least, most = (f"2^{math.log2(step):.0f}" for step in (min(steps), max(steps)))
    span = least if least == most else f"{least} to {most}"
    yield note(
        "method",
        "loss: Σ over the output of a standard normal cotangent times it, one a head unless W_o "
        f"mixes them; float64, central differences with steps h of {span}, "
        "chosen for the least error; allowed: what doubling h changes, plus 16 times the measured "
        "rounding noise of the loss over h",
    )


def _sampled(cases: Sequence[CaseGrads]) -> Iterator[Finding]:
    for case in cases:
        some = [part for part in case.inputs if part.checked < part.total]
        if some:
            counts = ", ".join(f"{written(p.name)} {p.checked:,} of {p.total:,}" for p in some)
            yield note(
                "sampled",
                f"{_of(case)}too many numbers to move each: {counts}, drawn from the seed, and of "
                "each a random direction through all; one loss for all heads",
                Place(layer=case.layer),
            )


def _norms(norms: Norms) -> Iterator[Finding]:
    """What taking the scale away does to the queries' gradient, and what a norm depends on."""
    first = norms.rows[0]
    if not math.isfinite(first.ratio) or first.ratio == 0:
        return
    factor = 1 / norms.scale
    layer = "" if norms.layer is None else f"layer {norms.layer}: "
    yield note(
        "gradient-norms",
        f"{layer}without the scale the gradient of {written(first.name)} is {first.ratio:.3g} "
        f"times as long: {factor:.4g} times by the scores' own factor, and "
        f"{first.ratio / factor:.3g} by what softmax lets through. A norm grows with the loss and "
        f"the sizes (the mean of these {norms.outputs:,} outputs divides it by {norms.outputs:,}), "
        "so no range such as 1e-3 to 1e-1 is healthy in general",
        Place(layer=norms.layer),
    )
