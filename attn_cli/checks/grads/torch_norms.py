"""Norms: how long the gradients are, with the scale on the scores and without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from attn_cli.checks.grads.leaves import MATRICES, core_question, leaves
from attn_cli.checks.grads.torch_gradients import gradients
from attn_cli.checks.grads.torch_objective import Objective
from attn_cli.checks.grads.torch_subject import Differentiable
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_grads import CaseSizes, Norm, Norms


def norms(
    subject: Differentiable,
    name: str,
    inputs: AttentionInputs,
    *,
    sizes: CaseSizes,
    seed: int,
    layer: int | None = None,
) -> Norms | None:
    """Gradient norms of the projections, or of q, k and v where there are none.

    "With" is the question's own scale, 1/√d_k where that is 1; "without" is 1. None where both are
    the same, d_k being 1.
    """
    projected = inputs.origin is not None and inputs.origin.projections is not None
    question = inputs if projected else core_question(inputs)
    scale = question.effective_scale
    scale = 1 / math.sqrt(question.q.shape[-1]) if scale == 1 else scale
    if scale == 1:
        return None
    wanted = MATRICES if projected else ("q", "k", "v")
    scaled, unscaled = (
        _gradients(subject, replace(question, scale=factor), seed) for factor in (scale, 1.0)
    )
    rows = [_norm(key, scaled[key], unscaled[key]) for key in wanted if key in scaled]
    return Norms(name, sizes, scale, _outputs(question), tuple(rows), layer)


def _gradients(
    subject: Differentiable, inputs: AttentionInputs, seed: int
) -> Mapping[str, Tensor | None]:
    read = {leaf.name: leaf for leaf in leaves(inputs) if subject.takes(leaf.name)}
    read.pop("scores", None)  # an input of nobody, and as large as all the scores
    return gradients(Objective(subject, inputs, seed, read, mixed=True))


def _norm(name: str, scaled: Tensor | None, unscaled: Tensor | None) -> Norm:
    lengths = (0.0 if part is None else float(part.norm()) for part in (scaled, unscaled))
    return Norm(name, *lengths)


def _outputs(inputs: AttentionInputs) -> int:
    """How many numbers the output has."""
    batch, heads, queries, _ = inputs.shape
    projection = inputs.output_projection
    if projection is None or projection.w_o is None:
        return int(batch * heads * queries * inputs.v.shape[-1])
    return int(batch * queries * projection.w_o.shape[-1])
