"""boundary: the suite of boundary cases as one line of what `attn check impl` says of code."""

from __future__ import annotations

import itertools
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attn_cli.checks.edges import KINDS
from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.judging import EMPTY
from attn_cli.checks.edges.suite import each_case, hold
from attn_cli.core.results_edges import Judgement
from attn_cli.core.results_impl import Behaviour, Status
from attn_cli.diagnosis.allowance import BEHAVIOUR
from attn_cli.diagnosis.inputs_subject import InputsSubject
from attn_cli.diagnosis.subject import Adapted
from attn_cli.workflows.check.edges_code import CodeSubject, head_width

SECONDS = 10.0  # after which no further case is asked
PATIENCE = 5.0  # seconds that one case may take
NOT_FINITE = ("nan-in-hidden-key", "nan-in-hidden-value", "inf-in-hidden", "nonfinite-visible")
ENOUGH = 200  # cases that were asked: fewer, and it is said why
REASONS = 2  # of what is not supported that are named


@dataclass(frozen=True, slots=True)
class BoundarySuite:
    """The line, of as many cases as there is time for: one of each kind, then the second of each.

    `words` are those that name the code on the command line, none where it has no such name.
    """

    words: tuple[str, ...] = ()
    seed: int = 0
    seconds: float = SECONDS

    def __call__(self, adapted: Adapted) -> tuple[Behaviour, ...]:
        """The suite on code that is ready to be asked; never more than one line."""
        code = InputsSubject(replace(adapted, limit=min(adapted.limit, PATIENCE)))
        width, started = head_width(code), time.monotonic()
        kinds = [each_case(kind, seed=self.seed, width=width) for kind in KINDS]
        cases = filter(None, itertools.chain.from_iterable(itertools.zip_longest(*kinds)))
        left = adapted.allowance.left(BEHAVIOUR)
        if left <= 0:
            adapted.allowance.leave_out("the boundary suite")
            return ()
        seconds, done, whole = min(self.seconds, left), [], True
        for case, _, judgement in hold(cases, [CodeSubject(code)]):
            done.append((case, judgement))
            if time.monotonic() - started > seconds:
                whole = next(cases, None) is None
                break
        return (self._line(done, None if whole else seconds),)

    def _line(self, done: Sequence[tuple[Case, Judgement]], cut_after: float | None) -> Behaviour:
        reasons = [found.reason for _, found in done if found.verdict == "unsupported"]
        failed = [(case, found) for case, found in done if found.verdict == "failed"]
        plain = [case for case, found in failed if not _excused(case, found)]
        asked = len(done) - len(reasons)
        said = [f"{asked - len(failed)} of {asked} held" if asked else "no case applies"]
        if failed and not plain:
            said[0] += ", the others are rows that see no key, or numbers that are not finite"
        if reasons:
            said.append(_unsupported(reasons, len(done), named=asked < ENOUGH))
        if cut_after is not None:
            said.append(f"{len(done)} cases tried, no more after {cut_after:.2g} s")
        said += self._first(plain or [case for case, _ in failed])
        status: Status = "holds" if asked else "skipped"
        if failed:
            status = "fails" if plain else "note"
        return Behaviour("boundary suite", status, "; ".join(said))

    def _first(self, failed: Sequence[Case]) -> Iterator[str]:
        """The first case that fails, and the command that shows it and those of its kind."""
        for case in failed[:1]:
            yield f"first {case.path}"
            if self.words:
                seed = ("--seed", str(self.seed)) if self.seed else ()
                words = ("attn", "check", "edges", *self.words, "--kind", case.kind, *seed)
                yield shlex.join(words)


def _excused(case: Case, found: Judgement) -> bool:
    """Whether it fails on what is a convention, or asked of attn's engines alone: what a row that
    sees no key becomes, and NaN and inf."""
    empty = found.mismatch is not None and found.mismatch.words == EMPTY
    return empty or case.kind in NOT_FINITE


def _unsupported(reasons: Sequence[str], total: int, *, named: bool) -> str:
    """How many cases the code is not meant for; and what most of them ask, where `named`."""
    words = f"{len(reasons)} of {total} not meant for it"
    if not named:
        return words
    most = [f"{n}: {reason}" for reason, n in Counter(reasons).most_common(REASONS)]
    return f"{words} ({'; '.join(most)}; …)"
