"""Running the suite once for many subjects: cases and what is right are found only once."""

from __future__ import annotations

from functools import cache

from attn_cli.checks.edges import KINDS
from attn_cli.checks.edges.case import Case, Subject
from attn_cli.checks.edges.judging import judge
from attn_cli.checks.edges.right import Right, right_of
from attn_cli.checks.edges.suite import make_cases
from attn_cli.core.results_edges import Judgement, told

KIND_NAMES = tuple(KINDS)


# Every case as it is asked without --dtype, and in the narrowest precision; in those between, the
# first of each kind and every third after it.
EVERY: dict[str | None, int] = {None: 1, "bfloat16": 1, "float16": 3, "float32": 3}


@cache
def questions(dtype: str | None = None) -> tuple[tuple[Case, Right], ...]:
    """The cases in one precision, with what is right."""
    cases = [case for kind in KINDS for case in make_cases(kind, dtype=dtype)[:: EVERY[dtype]]]
    return tuple((case, right_of(case)) for case in cases)


HELD: dict[tuple[Subject, str | None], dict[str, Judgement]] = {}


def held(subject: Subject, dtype: str | None = None) -> dict[str, Judgement]:
    """The judgement of every case by its kind/name; a subject is held once."""
    if (subject, dtype) not in HELD:
        done = {case.path: judge(case, subject, right) for case, right in questions(dtype)}
        HELD[subject, dtype] = done
    return HELD[subject, dtype]


def failures(subject: Subject, dtype: str | None = None) -> dict[str, str]:
    """kind/name → why, of the cases that failed."""
    return {
        path: done.reason if done.mismatch is None else told(done.mismatch)
        for path, done in held(subject, dtype).items()
        if done.verdict == "failed"
    }


def failing_kinds(subject: Subject) -> set[str]:
    """The kinds of which a case failed."""
    return {path.partition("/")[0] for path in failures(subject)}
