"""Masks: what the argument that takes one means, and the forms it may have."""

from __future__ import annotations

import re

from attn_cli.core.findings import Finding, note
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.infer import documents
from attn_cli.diagnosis.infer.names import is_per_item, mask_means
from attn_cli.diagnosis.infer.signature import Signature
from attn_cli.diagnosis.infer.source import Source, is_added
from attn_cli.diagnosis.infer.trials import Trials, with_call
from attn_cli.diagnosis.plan import MASK_KINDS, MaskSpec, Plan
from attn_cli.errors import InputError

_KINDS = {
    "keep": {"BS": "keep_pad", "B11S": "keep_pad_b11", "BLS": "keep_btt", "B1LS": "keep_pair_b1"},
    "hidden": {"BS": "drop_pad", "B11S": "drop_pad_b11", "BLS": "drop_btt", "B1LS": "drop_pair_b1"},
    "additive": {
        "BS": "additive_pad",
        "B11S": "additive_pad_b11",
        "BLS": "additive_btt",
        "B1LS": "additive_b1tt",
    },
    "bias": {"HLS": "bias_pair", "1HLS": "bias_1htt", "LS": "bias_tt"},
}
_BY_NAME = "by its name"
_PAIR = {"keep": "keep_", "hidden": "drop_", "additive": "additive_"}


def add_mask(
    plan: Plan, signature: Signature, source: Source, trials: Trials, said_means: str | None
) -> tuple[Plan, list[Finding]]:
    """The plan with its mask, where the code takes one.

    Raises InputError where neither its name nor its documentation says what it means.
    """
    if not signature.masks:
        if signature.bias is None:
            return plan, []
        return _bias(plan, signature.bias, source, trials)
    argument = signature.masks[0]
    said = documents.about_mask(source.documents(), argument)
    means, why = _meaning(argument, said, said_means)
    findings = [note("plan-mask", f"{argument}: {_WORDS[means]}, {why}")]
    if len(signature.masks) > 1:
        others = ", ".join(signature.masks[1:])
        findings.append(note("plan-mask-others", f"{others}: left out, one mask is tried"))
    kinds, dtypes = _forms(plan, argument, source, said, means)
    spec, troubles = trials.mask(plan, argument, kinds, dtypes)
    for layout in reversed(plan.call.layouts if spec is None else ()):
        there = with_call(plan, layouts=(layout,))
        if spec := trials.mask(there, argument, *_forms(there, argument, source, said, means))[0]:
            findings.append(note("plan-mask-layout", f"{argument} runs with {layout} alone"))
            plan = there
            break
    by_name = means == "keep" and why == _BY_NAME
    if spec is not None and spec.axes != "BS" and by_name and is_added(source, argument):
        # transformers calls so what is 1 for a token, and what its layers add to the scores.
        raise InputError(
            f"{argument} is added to the scores as it is: are its numbers 0 and −∞, or 1 and 0?",
            hint="say --mask-means additive, or keep (1 may attend)",
        )
    if spec is None:
        spec = MaskSpec(argument, kinds[0], dtypes[0])
        trouble = troubles[dtypes[0]]
        findings.append(
            note(
                "plan-mask-raises",
                f"{argument}: no form of it that was tried runs; {trouble.kind}: {trouble.message}",
            )
        )
    elif spec.dtype != "bool" and "bool" in troubles:
        if re.search(r"\b(bool|boolean|true)\b", said.lower()):
            spec = MaskSpec(argument, spec.kind, "bool")  # it is said to be one
        findings.append(_raises(argument, troubles["bool"]))
    return with_call(plan, mask=spec), findings


def hiding_nothing(
    plan: Plan, signature: Signature, source: Source, said_means: str | None
) -> list[MaskSpec]:
    """The forms of the mask that the code must be given, to be tried while nothing is known.

    Raises InputError where neither its name nor its documentation says what it means.
    """
    argument = signature.masks[0]
    said = documents.about_mask(source.documents(), argument)
    means, _ = _meaning(argument, said, said_means)
    kinds, dtypes = _forms(plan, argument, source, said, means)
    return [MaskSpec(argument, kind, dtype, True) for dtype in dtypes for kind in kinds]


def _forms(
    plan: Plan, argument: str, source: Source, said: str, means: str
) -> tuple[list[str], tuple[str, ...]]:
    """The kinds and the dtypes to try, best first."""
    kinds = [_kind(axes, means, plan) for axes in _axes(argument, said, plan)]
    if means == "keep" and _pads_left(plan, source):
        kinds = ["keep_pad_left" if kind == "keep_pad" else kind for kind in kinds]
    if means == "additive":
        return kinds, ("float",)
    numbers = re.search(_AS_FLOAT, said) and not re.search(r"(?i)\bbool|\btrue\b", said)
    return kinds, ("float", "int", "bool") if numbers else ("bool", "int", "float")


_AS_FLOAT = r"\bfloat\b(?!\()|\b1\.0\b|\b1\. *="  # so documentation says that a mask has floats


def _raises(argument: str, trouble: Trouble) -> Finding:
    where = f" on line {trouble.line}" if trouble.line else ""
    return note("mask-bool-raises", f"{argument}: a bool mask raises {trouble.kind}{where}")


_WORDS = {
    "keep": "True may attend",
    "hidden": "True is hidden",
    "additive": "added to the scores",
}


def _pads_left(plan: Plan, source: Source) -> bool:
    """Whether padding stands before the tokens: said, or positions are counted from the mask."""
    if re.search(r"left.{0,3}pad|pad\w*.{0,25}\bleft|left\s?padded", source.text, re.IGNORECASE):
        return True
    return plan.intent.positions is not None and "cumsum" in source.identifiers()


def _meaning(argument: str, said: str, option: str | None) -> tuple[str, str]:
    """What the mask's numbers say, and what told it."""
    if option is not None:
        return option, "as you said"
    named, documented = mask_means(argument), documents.mask_meaning(said)
    if documented is not None and (named is None or documented == "additive"):
        return documented, "by its documentation"
    if named is not None:
        return named, _BY_NAME
    raise InputError(
        f"does True in {argument} mean may attend, or hidden? The name does not tell",
        hint="say --mask-means keep, hidden or additive (numbers to add)",
    )


def _axes(argument: str, said: str, plan: Plan) -> list[str]:
    """The axes to try: what is documented, then what the name suggests."""
    pads = ["BS", "B11S"]
    pairs = ["B1LS", "BLS", "LS"] if plan.call.layouts[0] not in ("LD", "HLD") else ["LS"]
    if not plan.intent.weights and plan.call.separate:
        pairs = ["LS", *(p for p in pairs if p != "LS")]
    documented = documents.mask_axes(said)
    padding = "pad" in argument.lower()
    # A name that says padding is not read as a map of pairs because the code happens to run.
    layered = plan.intent.weights is not None and is_per_item(argument)
    if documented == "BS":
        return [documented]
    if padding or (layered and documented not in pairs):
        return pads if "attention" not in argument else [*pads, *pairs]
    if documented is not None and documented in (*pads, *pairs):
        return [documented, *pairs]
    return [*pairs, *pads]


def _kind(axes: str, means: str, plan: Plan) -> str:
    if axes == "LS":
        return _PAIR[means] + ("tt" if plan.intent.weights is not None else "pair")
    return _KINDS[means][axes]


def _bias(plan: Plan, argument: str, source: Source, trials: Trials) -> tuple[Plan, list[Finding]]:
    said = documents.about_mask(source.documents(), argument)
    documented = documents.mask_axes(said)
    order = ["1HLS", "HLS", "LS"] if plan.intent.weights else ["HLS", "1HLS", "LS"]
    if documented in order:
        order = [documented, *(a for a in order if a != documented)]
    kinds = [_KINDS["bias"][axes] for axes in order]
    spec, _ = trials.mask(plan, argument, kinds, ("float",))
    if spec is None:
        return plan, [note("plan-mask-raises", f"{argument}: left out, no form of it runs")]
    assert spec.kind in MASK_KINDS
    return with_call(plan, mask=spec), [
        note("plan-mask", f"{argument}: numbers added to the scores")
    ]
