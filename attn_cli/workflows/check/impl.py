"""attn check impl: is this implementation right, and if not, which mistake, on which line?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attn_cli.core.code_trace import CodeTrace
from attn_cli.core.findings import Finding
from attn_cli.core.results_impl import (
    Alternative,
    Asked,
    Behaviour,
    FoundMistake,
    ImplResult,
    Outcome,
    ProbeResult,
    UnusableImpl,
)
from attn_cli.diagnosis.adapting import adapt, adapt_object
from attn_cli.diagnosis.allowance import INTERVIEW, SECONDS
from attn_cli.diagnosis.behaviour import behaviour
from attn_cli.diagnosis.by_design import as_meant
from attn_cli.diagnosis.conventions import conventions
from attn_cli.diagnosis.host.session import LIMIT
from attn_cli.diagnosis.interviewing import Interview, answer, source_of
from attn_cli.diagnosis.plan_json import Said, to_json
from attn_cli.diagnosis.probes.probe import Seen
from attn_cli.diagnosis.signatures import signatures
from attn_cli.diagnosis.subject import Adapted
from attn_cli.diagnosis.trace.traced import traced
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.diagnosis.verdict import Judgement, Named, judge
from attn_cli.errors import AttnError

# Further lines on the behaviour of code, such as those of a suite of boundary cases.
Lines = Callable[[Adapted], tuple[Behaviour, ...]]

_INTERFACE = ("interface", "state", "dropout")  # stages that are no line of the formula

# Where a mistake of a stage shows in a trace: of two, the first line that parts is one's.
_SHOWS: Mapping[str, tuple[str, ...]] = {
    "projection": ("q", "k", "v"),
    "split": ("q", "k", "v"),
    "position": ("x_positions", "q_rotated", "k_rotated", "biased"),
    "scores": ("scores",),
    "scale": ("scaled",),
    "mask": ("softcapped", "masked", "weights"),
    "softmax": ("weights",),
    "mix": ("context",),
    "merge": ("merged",),
    "out_proj": ("output",),
}


def check_impl(
    target: Any,
    said: Said = Said(),
    *,
    seed: int = 0,
    limit: float = LIMIT,
    total: float = SECONDS,
    trace: bool = True,
    lines: Lines | None = None,
) -> ImplResult:
    """The verdict on `target`: FILE.py:NAME or package.module:NAME in a process of its own, or a
    function, a class or an object in this one.

    What `said` leaves open of the plan is worked out from the code. `limit` is the time in seconds
    that one question may take, `total` what all of them may: what is not asked for want of time is
    in `asked` and in a finding. Raises Unusable where the code cannot be imported, found, built or
    called, InputError where something must be said first. `lines` adds to what is said of its
    behaviour.
    """
    if isinstance(target, str):
        adapted = adapt(target, said, seed=seed, limit=limit, total=total)
    else:
        name = getattr(target, "__qualname__", type(target).__qualname__)
        adapted = adapt_object(target, said, name=name, seed=seed, limit=limit, total=total)
    with adapted:
        return examine(adapted, seed=seed, trace=trace, lines=lines)


def examine(
    adapted: Adapted,
    *,
    seed: int = 0,
    trace: bool = True,
    lines: Lines | None = None,
) -> ImplResult:
    """The verdict on code that is ready to be asked."""
    judgement = judge(adapted, seed=seed)
    found = behaviour(adapted, judgement.interview)
    more = () if lines is None else lines(adapted)
    code_trace = _trace(adapted, judgement) if trace else None
    asked = _asked(adapted, judgement.interview)
    return ImplResult(
        name=adapted.name,
        file=adapted.file,
        verdict=judgement.verdict,
        mistakes=_mistakes(adapted, judgement, code_trace),
        alternatives=tuple(_alternative(group) for group in judgement.alternatives),
        conventions=conventions(judgement, found),
        plan=to_json(as_meant(adapted.plan, judgement.by_design)),
        behaviour=(*found, *more),
        probes=_probes(judgement),
        asked=asked,
        findings=(*adapted.findings, *_cut(asked)),
        trace=code_trace,
        signatures=signatures(judgement.unexplained),
    )


def _asked(adapted: Adapted, told: Interview) -> Asked:
    left_out = tuple(adapted.allowance.left_out)
    late = told.asked < told.planned and adapted.allowance.over(INTERVIEW)
    seconds = adapted.allowance.seconds if left_out or late else None
    return Asked(told.asked, told.planned, left_out, seconds)


def _cut(asked: Asked) -> Iterator[Finding]:
    """What was not asked, and why."""
    if asked.probes < asked.of:
        of = f"{asked.probes} of {asked.of} probes were asked"
        why = "then one ran too long, or ended the process"
        if asked.seconds is not None:
            why = f"the time for all calls is {asked.seconds:g} s (--total-time)"
        yield Finding("probes-left-out", "warning", f"{of}: {why}")
    if asked.left_out:
        message = f"not tried for want of time: {', '.join(asked.left_out)}"
        yield Finding("not-tried", "warning", message)


def unusable(error: Unusable) -> UnusableImpl:
    """What `--json` says of code that cannot be checked."""
    return UnusableImpl(error.name, error.message, error.hint, error.to_dict())


def _trace(adapted: Adapted, judgement: Judgement) -> CodeTrace | None:
    """One question under observation: the first that is wrong, else the first of all."""
    told = judgement.interview
    once = [one for one in told.seen if len(one.question.steps) < 2]
    wrong = [one for one in once if not one.agrees and one.probe.boundary is None]
    wrong = wrong or [one for one in once if not one.agrees]
    for one in (wrong or once)[:1]:
        with contextlib.suppress(AttnError):
            return traced(adapted, one.question, dtype=one.probe.dtype or told.dtype)
    return None


def _mistakes(
    adapted: Adapted, judgement: Judgement, trace: CodeTrace | None
) -> tuple[FoundMistake, ...]:
    source = source_of(adapted.file).splitlines()
    found = []
    for named in judgement.mistakes:
        line = _line(named, judgement, trace)
        there = line is not None and line <= len(source)
        found.append(_found(named, line, source[line - 1].strip() if line and there else ""))
    return tuple(found)


def _found(named: Named, line: int | None, source: str) -> FoundMistake:
    mistake = named.mistake
    return FoundMistake(
        code=mistake.code,
        title=mistake.title,
        stage=mistake.stage,
        explanation=mistake.explanation,
        evidence=named.facts,
        fix=mistake.fix,
        note=named.note,
        line=line,
        source=source,
    )


def _line(named: Named, judgement: Judgement, trace: CodeTrace | None) -> int | None:
    """The line that raised, or the first that parts from the reference."""
    for evidence in judgement.evidence:
        if evidence.mistake is named.mistake:
            raised = [one.observed.trouble for one in evidence.explains]
            return next((trouble.line for trouble in raised if trouble is not None), None)
    if named.mistake.stage in _INTERFACE or trace is None or trace.first_parting is None:
        return None
    shows = trace.first_parting.stage in _SHOWS.get(named.mistake.stage, ())
    return trace.first_parting.line if len(judgement.mistakes) == 1 or shows else None


def _alternative(group: tuple[Named, ...]) -> Alternative:
    first, *others = group
    mistake = first.mistake
    codes = tuple(other.mistake.code for other in others)
    return Alternative(mistake.code, mistake.title, mistake.tell_apart, codes)


def _probes(judgement: Judgement) -> tuple[ProbeResult, ...]:
    told = judgement.interview
    asked = (*told.seen, *told.dropped)
    return tuple(_probe(one, told.dtype, _outcome(one, judgement)) for one in asked)


def _outcome(one: Seen, judgement: Judgement) -> Outcome:
    if one.failed:
        return "not taken" if one in judgement.interview.dropped else "fails"
    if one in judgement.excused:
        return "convention"
    return "agrees" if one.agrees else "differs"


def _probe(one: Seen, dtype: str, outcome: Outcome) -> ProbeResult:
    return ProbeResult(
        name=one.probe.name,
        shape=one.question.shape,
        dtype=one.probe.dtype or dtype,
        outcome=outcome,
        worst=one.worst,
        budget=float(one.budget.max()),
        rows=int((one.beyond | one.weights_beyond).sum()),
        rows_total=int(one.question.judged.sum()),
        boundary=one.probe.boundary,
        detail=answer(one.observed) if one.failed else "",
    )
