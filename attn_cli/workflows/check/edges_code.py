"""edges on somebody's code: the boundary cases, held by FILE.py:NAME as by an engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attn_cli.checks.edges.case import Answer
from attn_cli.checks.edges.judging import EMPTY, Refused
from attn_cli.checks.edges.making import WIDTH
from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_edges import EdgesResult
from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.host.session import LIMIT
from attn_cli.diagnosis.inputs_subject import CodeFailed, InputsSubject
from attn_cli.diagnosis.plan_json import Said
from attn_cli.errors import UnsupportedError
from attn_cli.workflows.check.edges import EdgesOptions, Progress, edges

HALVES = ("float16", "bfloat16")
NARROWEST = 4  # heads that a case can be made with: values are as wide


@dataclass(frozen=True, slots=True)
class CodeSubject:
    """Somebody's code as a subject of the suite.

    What it is not meant for it refuses, and a half precision that it does not take, too; any other
    question that it does not answer is a failure of the case.
    """

    code: InputsSubject

    @property
    def name(self) -> str:
        return self.code.name

    def attend(self, inputs: AttentionInputs, dtype: str) -> Answer:
        """The context; what weights the code returns is a matter of `attn check impl`."""
        try:
            return Answer(self.code.context(inputs, dtype))
        except CodeFailed as error:
            trouble = error.trouble
            where = "" if trouble.line is None else f" on line {trouble.line}"
            words = f"{trouble.kind}{where}: {trouble.message}"
            if dtype in HALVES and trouble.kind not in ("time", "died", "exit"):
                raise UnsupportedError(f"the code does not take {dtype}: {words}") from error
            raise Refused(f"it raised {words}") from error


def edges_of_code(
    target: str,
    said: Said,
    options: EdgesOptions,
    *,
    limit: float = LIMIT,
    progress: Progress | None = None,
) -> EdgesResult:
    """Every case on the code that `target` names, which runs in a process of its own.

    Raises what `attn check impl` raises where the code cannot be asked.
    """
    with adapt(target, said, seed=options.seed, limit=limit) as adapted:
        code = InputsSubject(adapted)
        result = edges(
            options,
            subjects=[CodeSubject(code)],
            notes=adapted.findings,
            progress=progress,
            width=head_width(code),
        )
    return replace(result, notes=(*result.notes, *_of_empty_rows(result)))


def head_width(code: InputsSubject) -> int:
    """The width of the heads in the cases: the code's own, so that its scale is theirs."""
    return code.width if code.width is not None and code.width >= NARROWEST else WIDTH


def _of_empty_rows(result: EdgesResult) -> Iterator[Finding]:
    """How many failures are about a convention alone: what a row that sees no key becomes."""
    found = [o.judgement.mismatch for o in result.outcomes if o.judgement.mismatch is not None]
    count = sum(mismatch.words == EMPTY for mismatch in found)
    if count:
        failed = result.number("failed")
        yield note(
            "empty-rows",
            f"{count} of {failed} failures are rows that see no key: softmax by itself gives NaN "
            "or a mean there, attn's engines give 0, and what is right is for you to say",
        )
