"""edge_case: one boundary case in full: its inputs, its mask, what is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attn_cli.checks.edges.case import Array, Case
from attn_cli.checks.edges.right import right_of
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_edges import CaseArray, CaseDetail, EdgeOutcome

MOST = 40  # queries and keys of a mask that is drawn
AXES = {
    "q": ("batch", "head", "query", "d_k"),
    "k": ("batch", "head", "key", "d_k"),
    "v": ("batch", "head", "key", "d_v"),
    "additive": ("batch", "head", "query", "key"),
    "bias": ("batch", "head", "query", "key"),
    "sinks": ("head",),
}


def detail(case: Case, outcomes: Sequence[EdgeOutcome]) -> CaseDetail:
    """Everything about one case, with the row that the first failure is in, else the first row."""
    right = right_of(case)
    found = [o.judgement.mismatch for o in outcomes if o.judgement.mismatch is not None]
    batch, head, query = found[0].where[:3] if found else (0, 0, 0)
    return CaseDetail(
        arrays=tuple(_arrays(case.inputs)),
        settings=tuple(_settings(case.inputs)),
        mask=case.mask,
        picture=tuple(_picture(right.visible, batch, head)) if case.mask else (),
        right=right.words,
        expected=np.where(right.empty[..., None], 0.0, right.output),
        row=(batch, head, query),
    )


def _arrays(inputs: AttentionInputs) -> Iterator[CaseArray]:
    for name, axes in AXES.items():
        array = getattr(inputs, name)
        if array is not None:
            yield CaseArray(name, axes[-array.ndim :], array.shape, _layout(array))


def _layout(array: Array) -> str:
    """How an array lies in memory, "" in C order."""
    if array.flags.c_contiguous:
        return ""
    if array.flags.f_contiguous:
        return "Fortran order"
    steps = ", ".join(str(stride // array.itemsize) for stride in array.strides)
    return f"strides of {steps} numbers"


def _settings(inputs: AttentionInputs) -> Iterator[str]:
    """What changes the computation, and how queries and keys line up where it matters."""
    given = "" if inputs.scale is not None else " = 1/√d_k"
    yield f"scale {inputs.effective_scale:.6g}{given}"
    if inputs.softcap is not None:
        yield f"softcap {inputs.softcap:g}"
    if inputs.mask is not None and inputs.q_offset:
        yield f"query 0 stands at position {inputs.q_offset}"


def _picture(visible: np.ndarray, batch: int, head: int) -> Iterator[str]:
    """One line a query, # where it sees the key; nothing where that is too large."""
    shown = visible[batch, head]
    if max(shown.shape) <= MOST:
        for row in shown:
            yield "".join("#" if seen else "." for seen in row)
