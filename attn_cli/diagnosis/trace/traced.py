"""traced: one question, answered by somebody's code under observation, line by line."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.code_trace import (
    ArrayLayout,
    CodeTrace,
    Operation,
    Parting,
    TracedLine,
    Why,
)
from attn_cli.core.compare import compare
from attn_cli.diagnosis.answers import Observed, observe
from attn_cli.diagnosis.arguments import call_of
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted, argument_matrices, init_json
from attn_cli.diagnosis.trace.kinds import Done
from attn_cli.diagnosis.trace.labels import Match, matches
from attn_cli.diagnosis.trace.parting import Place, places
from attn_cli.diagnosis.trace.stages import Forms
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]

_EXACT = ("float64", "int64")
_COARSE = ("float64", "float32", "float16", "bfloat16")  # from fine to coarse


def traced(
    adapted: Adapted,
    question: Question,
    *,
    dtype: str = "float64",
    train: bool = False,
    seed: int = 0,
) -> CodeTrace:
    """What the lines of the code do with `question`, and which stages of the reference they give.

    The code runs once, with the arguments, weights and seed of `Adapted.attend`, and computes what
    it computes there. Code that raises is traced up to there. UnsupportedError where the question
    is asked in steps: a step's arrays are no stage of the whole.
    """
    if len(question.steps) > 1:
        raise UnsupportedError("a question in several steps is not traced: ask it in one")
    weights = argument_matrices(adapted.plan, adapted.parameters)
    request = {
        "op": "trace",
        "calls": [call_of(adapted.plan, question, dtype=dtype, weights=weights)],
        "lib": adapted.plan.call.lib,
        "dtype": dtype,
        "train": train,
        "seed": seed,
        "init": init_json(adapted.plan),
    }
    told = adapted.session.ask(request, limit=adapted.limit)
    answer, seen = told, {"operations": [], "failed": 0, "left_out": 0, "files": []}
    if "ok" in told:
        answer, seen = {**told["ok"]["answer"], "printed": told["printed"]}, told["ok"]["seen"]
    observed = observe(adapted.plan, question, answer)
    return _trace(adapted, question, dtype, observed, seen)


def _trace(
    adapted: Adapted, question: Question, dtype: str, observed: Observed, seen: dict[str, Any]
) -> CodeTrace:
    forms = Forms(question)
    raw = seen["operations"]
    done = _done(raw, forms, dtype)
    agrees = _agrees(observed, question, forms, dtype)
    given = [] if question.inputs.x is not None else ["q", "k", "v"]
    found = [] if agrees or observed.output is None else places(done, forms, given, dtype)
    if observed.trouble is not None and observed.trouble.kind == "shape":
        found = places(done, forms, given, dtype)
    operations = [
        _operation(one, what, next((p for p in found if p.index == index), None))
        for index, (one, what) in enumerate(zip(raw, done, strict=True))
    ]
    lines = (*_lines(raw, operations), *_raising(raw, observed, seen, adapted))
    return CodeTrace(
        name=adapted.name,
        file=adapted.file,
        question=question.name,
        dtype=dtype,
        lines=lines,
        output_agrees=agrees,
        first_parting=_parting(raw, found, observed, lines),
        trouble=None if observed.trouble is None else _said(observed),
        notes=tuple(_notes(seen, observed)),
    )


def _done(raw: Sequence[dict[str, Any]], forms: Forms, dtype: str) -> list[Done]:
    """Every expression with its values and what they are, in the coarsest precision until then."""
    done: list[Done] = []
    for one in raw:
        runs: tuple[Array, ...] = ()
        if not one["raised"] and one["values"]:
            runs = tuple(one["values"][0]) if one["stacked"] else tuple(one["values"])
            dtype = _coarser(dtype, one["last"]["dtype"])
            if dtype.startswith("int"):  # whole numbers were asked: they are stages too
                runs = tuple(
                    run.astype(np.float64) if run.dtype.kind in "iu" else run for run in runs
                )
        numbers = [run for run in runs if run.dtype.kind == "f"]
        found = matches(numbers, forms.within(dtype))
        if not found and dtype in _EXACT:  # it may hold constants that were float32 once
            found = matches(numbers, forms.within("float32"))
        done.append(Done(one["name"], one["outer"], one["own"], runs, found, dtype))
    return done


def _coarser(one: str, other: str) -> str:
    if other not in _COARSE or one not in _COARSE:
        return one
    return max(one, other, key=_COARSE.index)


def _agrees(observed: Observed, question: Question, forms: Forms, dtype: str) -> bool | None:
    """Whether the output is the reference's, rows that do not count left out."""
    if observed.output is None:
        return None
    for within in (dtype, "float32") if dtype in _EXACT else (dtype,):
        form = forms.of(question.stage, within)[0]
        if observed.output.shape != form.array.shape:
            return False
        output = form.made_alike(observed.output)
        diff = compare(output, form.array, budget=form.budget, dtype="float64")
        if diff.verdict != "different":
            return True
    return False


def _operation(one: dict[str, Any], done: Done, place: Place | None) -> Operation:
    found = done.matches
    return Operation(
        name=one["name"],
        source=one["source"],
        layout=None if one["raised"] else _layout(one["last"]),
        outer=one["outer"],
        own=one["own"],
        count=one.get("count", 1),
        parts=one.get("parts", 1),
        before=None if one["before"] is None else _layout(one["before"]),
        copied=one.get("copied"),
        stages=done.stages,
        label=_words(found),
        axes=_axes(one, found),
        should_be=None if place is None else place.stage,
        why=None if place is None else place.why,
        raised=one["raised"],
    )


def _layout(told: dict[str, Any]) -> ArrayLayout:
    strides = told["strides"]
    return ArrayLayout(
        tuple(told["shape"]),
        None if strides is None else tuple(strides),
        told["contiguous"],
        told["dtype"],
    )


def _words(found: Sequence[Match]) -> str | None:
    return ", ".join(dict.fromkeys(one.form.label for one in found)) or None


def _axes(one: dict[str, Any], found: Sequence[Match]) -> tuple[str, ...] | None:
    """The names of the last array's axes."""
    if not found or one["raised"]:
        return None
    axes = found[-1].axes
    return axes if len(axes) == len(one["last"]["shape"]) else None


def _lines(raw: Sequence[dict[str, Any]], operations: Sequence[Operation]) -> Iterator[TracedLine]:
    """The operations by their lines, in the order in which lines were first run."""
    by_line: dict[tuple[str, int], list[int]] = {}
    for index, one in enumerate(raw):
        if _tells(operations[index]):
            by_line.setdefault((one["file"], one["line"]), []).append(index)
    for (file, line), indices in by_line.items():
        mine = tuple(operations[index] for index in indices)
        yield _line(file, line, raw[indices[0]]["text"], mine)


def _raising(
    raw: Sequence[dict[str, Any]], observed: Observed, seen: dict[str, Any], adapted: Adapted
) -> Iterator[TracedLine]:
    """The line that raised, where it had given nothing before."""
    line = None if observed.trouble is None else observed.trouble.line
    if line is not None and all(one["line"] != line for one in raw):
        file = adapted.file or ""  # a process that was ended told nothing: its file may still
        text = seen.get("raising") or linecache.getline(file, line).strip()
        yield TracedLine(file, line, text, ())


def _tells(operation: Operation) -> bool:
    """Whether an operation gives an array, or a number that is part of a stage."""
    return operation.raised or bool(operation.shape) or operation.label is not None


def _line(file: str, line: int, text: str, operations: tuple[Operation, ...]) -> TracedLine:
    results = [one for one in operations if one.outer] or [operations[-1]]
    labels = [one.label for one in results if one.label is not None]
    stages = [stage for one in results for stage in one.stages]
    wrong = [one.should_be for one in operations if one.should_be is not None]
    agrees = False if wrong else True if labels else None
    return TracedLine(
        file=file,
        line=line,
        source=text,
        operations=operations,
        count=max(one.count for one in results),
        label=", ".join(dict.fromkeys(", ".join(labels).split(", "))) if labels else None,
        stage=stages[-1] if stages else None,
        agrees=agrees,
        should_be=wrong[0] if wrong else None,
    )


def _parting(
    raw: Sequence[dict[str, Any]],
    found: Sequence[Place],
    observed: Observed,
    lines: Sequence[TracedLine],
) -> Parting | None:
    trouble = observed.trouble
    if trouble is not None and trouble.line is not None:
        at = next(line for line in lines if line.line == trouble.line)
        why: Why = "stops" if trouble.kind in ("exit", "time", "died") else "raises"
        return Parting(at.file, at.line, at.source, None, why, _raised(raw, observed))
    if found:
        one, place = raw[found[0].index], found[0]
        return Parting(one["file"], one["line"], one["text"], place.stage, place.why, place.detail)
    return None


def _raised(raw: Sequence[dict[str, Any]], observed: Observed) -> str:
    """What was raised; for a view of what does not lie in order, that it does not."""
    said = _said(observed)
    for one in raw:
        if one["raised"] and one["before"] is not None and not one["before"]["contiguous"]:
            strides = ", ".join(map(str, one["before"]["strides"]))
            said = (
                said.rstrip(".")
                + f"; .{one['name']} was given strides ({strides}), which are not contiguous"
            )
    return said


def _said(observed: Observed) -> str:
    trouble = observed.trouble
    assert trouble is not None
    ours = trouble.kind in ("exit", "time", "died", "shape", "answer")
    return trouble.message if ours else f"{trouble.kind}: {trouble.message}"


def _notes(seen: dict[str, Any], observed: Observed) -> Iterator[str]:
    trouble = observed.trouble
    if trouble is not None and trouble.kind in ("time", "died"):
        yield "what the lines did was lost with the process"
    elif not seen["operations"]:
        yield "no line was seen: the source of the code cannot be read, or it is compiled"
    if seen["left_out"]:
        yield f"{seen['left_out']:,} values were not kept: the memory for them was full"
    if seen["failed"]:
        yield f"{seen['failed']:,} values could not be looked at"
