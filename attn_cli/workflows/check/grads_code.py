"""check grads on somebody's code: autograd through it beside differences of its own output."""

from __future__ import annotations

from attn_cli.checks.grads.said import faults, fine
from attn_cli.core.findings import Finding, note
from attn_cli.core.results_grads import INPUT, CaseGrads, GradsResult, InputGrads
from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.differences import Differences, NoAnswer
from attn_cli.diagnosis.gradients import Gradients, gradients
from attn_cli.diagnosis.host.session import LIMIT
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted, some
from attn_cli.errors import UnsupportedError

BATCH, QUERIES = 2, 4


def grads_of_code(
    target: str, told: Said = Said(), *, seed: int = 0, limit: float = LIMIT
) -> GradsResult:
    """The gradients of the code that `target` names, for a drawn question and a drawn loss.

    What is compared is the code's autograd with the code's own output: whether it computes
    attention is a matter of `attn check impl`. UnsupportedError for code without PyTorch, and
    where the code, asked for gradients, fails.
    """
    with adapt(target, told, seed=seed, limit=limit) as code:
        question = draw_question(code.plan, code.parameters, Sizes(BATCH, QUERIES), name="drawn")
        found = gradients(code, question, seed=seed)
        if found.trouble is not None:
            where = "" if found.trouble.line is None else f" on line {found.trouble.line}"
            raise UnsupportedError(
                f"{target} gives no gradients: {found.trouble.kind}{where}: {found.trouble.message}"
            )
        case = _case(code, question, found, seed)
        left = [name for name in found.learned if name not in code.numbers.values]
        notes = (*code.findings, *_method(case), *_left(left), *_unreached(found))
    return GradsResult(
        subject=target,
        seed=seed,
        cases=(case,),
        norms=(),
        findings=(*notes, *faults([case])),
        fine=fine([case]),
        code=True,
    )


def _case(code: Adapted, question: Question, found: Gradients, seed: int) -> CaseGrads:
    B, H, L, S = question.shape
    sizes = {"batch": B, "heads": H, "kv_heads": question.inputs.kv_heads, "queries": L, "keys": S}
    sizes |= {"d_k": question.inputs.q.shape[-1], "d_v": question.inputs.v.shape[-1]}
    parts: list[InputGrads] = []
    why = ""
    try:
        parts.extend(Differences(code, question, found, seed).inputs())
    except NoAnswer as error:
        why = f"the code fails when {error} is moved a little"
    return CaseGrads(name=INPUT, sizes=sizes, inputs=tuple(parts), why=why)


def _method(case: CaseGrads) -> list[Finding]:
    if not case.inputs:
        return []
    words = (
        "loss: Σ over the output of a standard normal cotangent times it; float64, central "
        "differences of the code's own output; allowed: what doubling the step changes, plus 16 "
        "times the measured noise of the loss over the step"
    )
    if any(part.checked < part.total for part in case.inputs):
        words += "; of large inputs drawn numbers, and a drawn direction through all"
    return [note("method", words)]


def _left(names: list[str]) -> list[Finding]:
    if not names:
        return []
    return [note("gradients-left", f"not moved, for attn does not set them: {some(names)}")]


def _unreached(found: Gradients) -> list[Finding]:
    """Tensors that no gradient reaches: they would never be trained."""
    names = [name for name, gradient in found.learned.items() if gradient is None]
    if not names:
        return []
    return [Finding("gradient-unreached", "warning", f"no gradient reaches {some(names)}")]
