"""Suite: makes the cases, and holds subjects against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attn_cli.checks.edges import KINDS, OF_ONE_PRECISION
from attn_cli.checks.edges.case import Case, Subject
from attn_cli.checks.edges.judging import judge
from attn_cli.checks.edges.making import WIDTH, Making
from attn_cli.checks.edges.right import right_of
from attn_cli.core.results_edges import Judgement

DEFAULT_DTYPE = "float64"


def make_cases(
    kind: str, *, dtype: str | None = None, seed: int = 0, width: int = WIDTH
) -> list[Case]:
    """The cases of one kind: in `dtype`, or float64, but for the kinds about one precision.

    `width`, 4 at least, is that of a head where the case is about no other. Kinds about one
    precision have no cases in another one that is asked for.
    """
    return list(each_case(kind, dtype=dtype, seed=seed, width=width))


def each_case(
    kind: str, *, dtype: str | None = None, seed: int = 0, width: int = WIDTH
) -> Iterator[Case]:
    """The same one after the other, each made when it is asked for."""
    own = kind if kind in OF_ONE_PRECISION else None
    if own is None or dtype in (None, own):
        yield from KINDS[kind](Making(kind, own or dtype or DEFAULT_DTYPE, seed, width))


def hold(
    cases: Iterable[Case], subjects: Sequence[Subject]
) -> Iterator[tuple[Case, Subject, Judgement]]:
    """Every subject on every case; what is right is found once a case, where a subject answers."""
    for case in cases:
        right = right_of(case)
        for subject in subjects:
            yield case, subject, judge(case, subject, right)


def meaning(kind: str) -> str:
    """What the cases of a kind ask, in one line."""
    return (KINDS[kind].__doc__ or "").strip().splitlines()[0]
