"""Masking: what hides keys — expression, lengths, arrays of the file — and where queries stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.masks import Mask, MaskContext
from attn_cli.masks.base import And
from attn_cli.masks.expression import MaskExpression, conjunction, parse
from attn_cli.masks.file import Stored
from attn_cli.masks.padding import Padding
from attn_cli.recognize.alignment import align_positions
from attn_cli.recognize.file_masks import file_masks
from attn_cli.recognize.lengths import key_lengths
from attn_cli.recognize.origin import MEMORY, speaking_of
from attn_cli.recognize.question import Question
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked

Array = NDArray[Any]
Load = Callable[[str], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Masking:
    """Every mask together. `expression` is the normalised text of those that were written.

    `additive` and `bias` have four axes that broadcast to (B, H, L, S).
    """

    mask: Mask | None
    expression: str | None
    additive: Array | None
    bias: Array | None
    q_offset: int | None
    lengths: tuple[int, ...] | None
    findings: tuple[Finding, ...] = ()


def find_masking(
    question: Question,
    roles: Roles,
    second: Roles | None,
    asked: Asked,
    load: Load | None,
    *,
    compares: str | None = None,
) -> Masking:
    """The masks of the file and of the settings; InputError where one does not fit.

    `compares` names positions, which compare those of queries and keys as masks may do.
    """
    batch, _, queries, keys = question.shape
    told_by = roles.dump.source if "mask" in asked.from_file else MEMORY
    with speaking_of(told_by):
        expression = _parse(asked.choices.masks)
    with speaking_of(roles.dump.source):
        lengths, said = key_lengths(roles, second, batch=batch, keys=keys, cross=question.cross)
        arrays = file_masks(roles, question.shape, asked)
    if expression is not None and expression.compares_positions:
        compares = "the mask"
    aligned = align_positions(
        queries, keys, asked=asked.choices.align, cross=question.cross, compares=compares
    )
    masks: list[Mask] = []
    if expression is not None:
        context = _context(question.shape, aligned.q_offset, lengths, load)
        with speaking_of(told_by):
            masks.append(expression.build(context))
    if lengths is not None:
        masks.append(Padding(lengths))
    if arrays.keep is not None:
        full = np.broadcast_to(arrays.keep, question.shape)
        masks.append(Stored(full, aligned.q_offset or 0))
    return Masking(
        mask=_all_of(masks),
        expression=None if expression is None else str(expression),
        additive=arrays.additive,
        bias=arrays.bias,
        q_offset=aligned.q_offset,
        lengths=lengths,
        findings=(*arrays.findings, *said, *aligned.findings),
    )


def _parse(texts: Sequence[str]) -> MaskExpression | None:
    """All of them as one; None where it is `none`."""
    expression = conjunction([parse(text) for text in texts])
    return None if str(expression) == "none" else expression


def _context(
    shape: tuple[int, int, int, int],
    q_offset: int | None,
    lengths: tuple[int, ...] | None,
    load: Load | None,
) -> MaskContext:
    batch, heads, queries, keys = shape
    aligned = q_offset is not None or queries == keys
    return MaskContext(batch, heads, queries, keys, q_offset or 0, aligned, lengths, load)


def _all_of(masks: Sequence[Mask]) -> Mask | None:
    if len(masks) < 2:
        return masks[0] if masks else None
    return And(tuple(masks))
