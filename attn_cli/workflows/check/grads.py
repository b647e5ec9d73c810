"""check grads: autograd beside finite differences, on a set of small cases or on an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from attn_cli.checks.grads.said import fine, said
from attn_cli.core.engine import Progress
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.memory import available_bytes, require_dense
from attn_cli.core.results_grads import CaseGrads, GradsResult, Norms
from attn_cli.engines import ENGINES
from attn_cli.errors import UnsupportedError
from attn_cli.workflows.check.grads_asked import Asked, GradsOptions, asked

if TYPE_CHECKING:
    from attn_cli.checks.grads.torch_subject import Differentiable

COPIES = 24  # (B, H, L, S) in work at once: the stages, their gradients, and moved ones


def grads(
    source: str | None,
    options: GradsOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> GradsResult:
    """Check the gradients of an engine on `source`, on --shape, or on the default cases.

    Raises InputError for what cannot be read, UnsupportedError for an engine without gradients.
    """
    subject = differentiable(options.engine)
    return check_gradients(subject, asked(source, options, stdin=stdin), options, progress)


def differentiable(engine: str) -> Differentiable:
    """The engine called so, to be differentiated; UnsupportedError where it cannot be."""
    if not ENGINES[engine].can.gradients:
        able = [name for name in ENGINES if ENGINES[name].can.gradients]
        raise UnsupportedError(
            f"attn cannot differentiate engine {engine}", hint=f"use --engine {' or '.join(able)}"
        )
    from attn_cli.checks.grads.torch_subject import TORCH

    return TORCH


def check_gradients(
    subject: Differentiable,
    about: Asked,
    options: GradsOptions,
    progress: Progress | None = None,
) -> GradsResult:
    """Check the gradients of any differentiable attention on the questions."""
    from attn_cli.checks.grads.torch_check import check_case, sizes
    from attn_cli.checks.grads.torch_norms import norms

    seed = options.drawn
    cases: list[CaseGrads] = []
    lengths: list[Norms] = []
    for done, each in enumerate(about.questions):
        if progress is not None:
            progress(done, len(about.questions))
        _require_room(each.inputs)
        if each.checked:
            cases.append(check_case(subject, each.name, each.inputs, seed=seed, layer=each.layer))
        if each.norms and not (each.checked and cases[-1].why):
            measured = norms(
                subject,
                each.name,
                each.inputs,
                sizes=sizes(each.inputs),
                seed=seed,
                layer=each.layer,
            )
            lengths += [] if measured is None else [measured]
    return GradsResult(
        subject=subject.name,
        seed=seed,
        cases=tuple(cases),
        norms=tuple(lengths),
        findings=(*about.findings, *said(cases, lengths)),
        input=about.input,
        settings=about.settings,
        fine=fine(cases),
    )


def _require_room(inputs: AttentionInputs) -> None:
    batch, heads, queries, keys = inputs.shape
    require_dense(
        (1, batch * heads, queries, keys),  # the whole batch at once
        copies=COPIES,
        kept=0,
        itemsize=8,
        available=available_bytes(),
    )
