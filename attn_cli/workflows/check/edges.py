"""edges: boundary cases by kind, held by every engine that was asked for."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from attn_cli.checks.edges import KINDS, OF_ONE_PRECISION
from attn_cli.checks.edges.case import Case, Subject
from attn_cli.checks.edges.making import WIDTH
from attn_cli.checks.edges.subjects import EngineSubject
from attn_cli.checks.edges.suite import hold, make_cases, meaning
from attn_cli.core.draws import LARGEST_SEED
from attn_cli.core.findings import Finding, note
from attn_cli.core.listing import Entry, Listing
from attn_cli.core.registry import unknown_name
from attn_cli.core.results_edges import EdgeOutcome, EdgesResult, Judgement
from attn_cli.engines import OURS
from attn_cli.errors import InputError
from attn_cli.workflows.check.edge_case import detail

Progress = Callable[[int, int], None]  # done, total
Where = Literal["key", "value"]
DTYPES = ("float64", "float32", "float16", "bfloat16")
COMMAND = "attn check edges"
NAN_KINDS: dict[str, Where] = {"nan-in-hidden-key": "key", "nan-in-hidden-value": "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgesOptions:
    """What was asked for: empty `engines` means attn's own, empty `kinds` all; `case` is kind/name.

    `dtype` None: float64, and float16 and bfloat16 for the kinds about them. `code` are the words
    of the command line that name somebody's code and say how it is called, where that is held.
    """

    engines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    case: str | None = None
    dtype: str | None = None
    seed: int = 0
    code: tuple[str, ...] = ()


def edges(
    options: EdgesOptions,
    *,
    subjects: Sequence[Subject] | None = None,
    notes: Sequence[Finding] = (),
    progress: Progress | None = None,
    width: int = WIDTH,
) -> EdgesResult:
    """Every case that was asked for on every engine, or on `subjects` where they are given.

    `notes` is what there is to say of these, `width` that of a head where a case is about no other.
    InputError for a precision, kind or case that there is not.
    """
    if options.dtype is not None and options.dtype not in DTYPES:
        raise unknown_name("precision", options.dtype, DTYPES)
    if not 0 <= options.seed <= LARGEST_SEED:
        raise InputError(f"--seed is {options.seed}: expected a number from 0 to {LARGEST_SEED}")
    cases = _cases(options, width)
    held_by = subjects or [EngineSubject(name) for name in options.engines or OURS]
    outcomes = []
    for case, subject, judgement in _held(cases, held_by, progress):
        line = _line(case, subject, options)
        outcomes.append(
            EdgeOutcome(subject.name, case.kind, case.name, case.dtype, case.asks, judgement, line)
        )
    return EdgesResult(
        engines=tuple(subject.name for subject in held_by),
        kinds=tuple(dict.fromkeys(case.kind for case in cases)),
        dtype=options.dtype,
        seed=options.seed,
        outcomes=tuple(outcomes),
        notes=(*notes, *_notes(options, cases)),
        detail=detail(cases[0], outcomes) if options.case is not None else None,
        held="code" if options.code else "engine",
    )


def edges_listing(kinds: Sequence[str] = ()) -> Listing:
    """The kinds with the number of their cases; or, of kinds that are named, their cases."""
    if not kinds:
        entries = [
            Entry(kind, f"{meaning(kind)} ({len(make_cases(kind))} cases)") for kind in KINDS
        ]
        return Listing("edge kinds", tuple(entries))
    cases = [case for kind in kinds for case in make_cases(kind)]
    return Listing("edge cases", tuple(Entry(case.path, case.asks) for case in cases))


def _cases(options: EdgesOptions, width: int) -> list[Case]:
    """The cases that were asked for; InputError where there are none."""
    if options.case is not None:
        return [_case(options.case, options, width)]
    kinds = options.kinds or tuple(KINDS)
    cases = [case for kind in kinds for case in _of_kind(kind, options, width)]
    if not cases:
        raise InputError(
            f"the kinds {', '.join(kinds)} are about one precision each, not {options.dtype}",
            hint="leave --dtype out, or name other kinds",
        )
    return cases


def _of_kind(kind: str, options: EdgesOptions, width: int) -> list[Case]:
    return make_cases(kind, dtype=options.dtype, seed=options.seed, width=width)


def _case(path: str, options: EdgesOptions, width: int) -> Case:
    """The case called kind/name; InputError names the nearest."""
    if options.kinds:
        raise InputError("--case names one case with its kind: leave --kind out")
    kind, _, name = path.partition("/")
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, list(KINDS), n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"there is no case {path!r}: expected kind/name, and there is no kind {kind!r}",
            hint=f"{meant}{COMMAND} --list shows the kinds",
        )
    cases = {case.name: case for case in _of_kind(kind, options, width)}
    if not cases:
        raise InputError(
            f"{kind} is about that precision: it has no case in {options.dtype}",
            hint="leave --dtype out",
        )
    if name not in cases:
        near = difflib.get_close_matches(name, list(cases), n=1)
        meant = f"did you mean {kind}/{near[0]}? " if near else ""
        raise InputError(
            f"there is no case {path!r}: "
            + (f"{kind} has no {name!r}" if name else "expected kind/name"),
            hint=f"{meant}{COMMAND} --list --kind {kind} shows its cases",
        )
    return cases[name]


def _held(
    cases: Sequence[Case], subjects: Sequence[Subject], progress: Progress | None
) -> Iterator[tuple[Case, Subject, Judgement]]:
    total = len(cases) * len(subjects)
    for done, held in enumerate(hold(cases, subjects), 1):
        yield held
        if progress is not None:
            progress(done, total)


def _line(case: Case, subject: Subject, options: EdgesOptions) -> str:
    """The command that runs this case alone, just as it ran here."""
    subject_words = options.code or ("--engine", subject.name)
    words = [COMMAND, *map(shlex.quote, subject_words), "--case", case.path]
    if options.dtype is not None:
        words += ["--dtype", options.dtype]
    if options.seed:
        words += ["--seed", str(options.seed)]
    return " ".join(words)


def _notes(options: EdgesOptions, cases: Sequence[Case]) -> Iterator[Finding]:
    """What was left out, and what PyTorch does where hidden NaN is asked about."""
    kinds = {case.kind for case in cases}
    left = [kind for kind in OF_ONE_PRECISION if kind not in (*kinds, *options.kinds)]
    if options.dtype is not None and options.case is None and not options.kinds and left:
        words = " and ".join(left)
        yield note(
            "left-out", f"the cases about {words} are left out: everything is in {options.dtype}"
        )
    asked: list[Where] = [where for kind, where in NAN_KINDS.items() if kind in kinds]
    if asked and not options.code:
        yield from _of_pytorch(asked)  # loads torch


def _of_pytorch(asked: Sequence[Where]) -> Iterator[Finding]:
    """What PyTorch's fused attention returns where a hidden key or value is NaN, measured now.

    One note where both give the same.
    """
    from attn_cli.engines.torch_hidden import rows_lost_to_hidden_nan, torch_version

    answers: dict[str, list[str]] = {}
    for where in asked:
        by_rows: dict[str, list[str]] = {}
        for dtype, rows in rows_lost_to_hidden_nan(where).items():
            by_rows.setdefault(rows, []).append(dtype)
        said = "; ".join(f"{rows} in {', '.join(dtypes)}" for rows, dtypes in by_rows.items())
        answers.setdefault(said, []).append(where)
    for said, places in answers.items():
        yield note(
            "hidden-nan-pytorch",
            f"a NaN in a hidden {' or '.join(places)}, given to scaled_dot_product_attention of "
            f"torch {torch_version()} with a boolean mask (rows that come back NaN): {said}",
        )
