"""As said: a plan that leaves nothing open, tried on the code itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_cli.core.findings import Finding
from attn_cli.diagnosis.allowance import Allowance
from attn_cli.diagnosis.asking import Sizes
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.host.session import Session
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.infer.trials import EQUAL, LAST, Trials, with_call
from attn_cli.diagnosis.plan import Plan
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.subject import Built, Numbers, build, init_json, left_out, set_numbers
from attn_cli.diagnosis.unusable import Unusable


@dataclass(frozen=True, slots=True)
class Completed:
    """A plan that the code has answered a first call by, the numbers in it, and what was chosen."""

    plan: Plan
    parameters: Parameters
    numbers: Numbers
    findings: tuple[Finding, ...]


def _required(plan: Plan, parameters: Sequence[Mapping[str, Any]]) -> Plan:
    """The plan saying of its mask whether the code can be called without."""
    spec = plan.call.mask
    if spec is None or not any(p["required"] for p in parameters if p["name"] == spec.arg):
        return plan
    return with_call(plan, mask=dataclasses.replace(spec, required=True))


def as_said(
    session: Session,
    facts: Mapping[str, Any],
    said: Said,
    name: str,
    seed: int,
    limit: float,
    allowance: Allowance,
) -> Completed:
    plan = said.over({}, {})
    built = Built({}) if plan.call.kind == "function" else build(session, init_json(plan), name)
    plan = _required(plan, built.parameters or facts["call"])
    parameters, numbers = set_numbers(session, plan, built, seed=seed)
    trials = Trials(session, parameters, allowance, limit)
    trouble = _first_call(trials, plan)
    if trouble is not None and (single := trials.in_float32(plan, trouble)) is not None:
        trials, trouble = single, _first_call(single, plan) and trouble
    if trouble is not None:
        raise Unusable(name, trouble, tried=tried(plan))
    return Completed(widths(plan, trials), parameters, numbers, left_out(built, numbers))


def widths(plan: Plan, trials: Trials) -> Plan:
    """Whether values may be wider than keys: tried, where no layer fixes them."""
    if plan.call.widths_may_differ is not None or trials.parameters.projections is not None:
        return plan
    if "v" not in plan.call.roles:
        return plan
    return with_call(plan, widths_may_differ=trials.widths_may_differ(plan) is None)


def _first_call(trials: Trials, plan: Plan) -> Trouble | None:
    """The trouble of a plain question, None where some plain question has an answer of an array.

    Code that transposes all axes runs only where all sizes are equal; it is wrong, not unusable.
    """
    first: Trouble | None = None
    needs_mask = plan.call.mask is not None
    for sizes in (Sizes(), Sizes(batch=1, queries=1), EQUAL):
        for layout in plan.call.layouts:
            for masked in (False, True) if needs_mask else (False,):
                question = trials.question(plan, layout, sizes=sizes, masked=masked)
                trouble = trials.fits(plan, question)
                if trouble is None or trouble.kind == "shape":
                    return None
                if trouble.kind in LAST:
                    return trouble
                first = first or trouble
    return first


def tried(plan: Plan) -> str:
    """The call in words: attention(q, k, v, mask=…)."""
    mask = [] if plan.call.mask is None else [f"{plan.call.mask.arg}=…"]
    return f"({', '.join([*plan.call.inputs, *mask])})"
