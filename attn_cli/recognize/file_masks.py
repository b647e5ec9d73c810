"""The masks of a file: boolean ones together, additive ones together, each said in a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.recognize.mask_axes import Shape, over_scores
from attn_cli.recognize.mask_kind import OPEN, as_keep, kind_of
from attn_cli.recognize.numbers import real
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked, option

Array = NDArray[Any]

MASK_ROLES = ("mask", "attention_mask", "key_padding_mask", "padding_mask", "additive_mask")


@dataclass(frozen=True, slots=True, eq=False)
class FileMasks:
    """`keep` (True = may attend), `additive` and `bias`: axes that broadcast to (B, H, L, S)."""

    keep: NDArray[np.bool_] | None = None
    additive: Array | None = None
    bias: Array | None = None
    findings: tuple[Finding, ...] = ()


def file_masks(roles: Roles, scores: Shape, asked: Asked) -> FileMasks:
    """Every mask of the file and its bias; InputError where one cannot be read in one way only."""
    _check_means_told(roles, asked)
    keeps: list[NDArray[np.bool_]] = []
    added: list[Array] = []
    findings: list[Finding] = []
    seen: list[str] = []
    for role in (role for role in MASK_ROLES if role in roles):
        label, array = roles.label(role), roles.array(role)
        kind = kind_of(array, role, label, asked.choices.mask_means)
        placed, axes = over_scores(array, scores, role, label, asked.choices.mask_axes)
        seen.append(",".join(axes))
        dtype = "written out" if roles.dtype(role) == "json" else roles.dtype(role)
        words = f"{label} is {dtype} over ({', '.join(axes)}): {kind.words}"
        findings.append(note("mask-kind", words))
        if kind.means == "additive":
            added.append(real(placed, label))
        else:
            keeps.append(as_keep(placed, kind))
    _check_axes_told(seen, asked)
    bias, hidden, said = _bias(roles, scores)
    if hidden is not None:
        added.append(hidden)
    return FileMasks(
        keep=reduce(np.logical_and, keeps) if keeps else None,
        additive=_sum(added),
        bias=bias,
        findings=(*findings, *said),
    )


def _bias(roles: Roles, scores: Shape) -> tuple[Array | None, Array | None, tuple[Finding, ...]]:
    """The bias, and apart from it what it hides: −inf in a bias is a mask."""
    if "bias" not in roles:
        return None, None, ()
    label = roles.label("bias")
    bias, _ = over_scores(real(roles.array("bias"), label), scores, "bias", label)
    hides = np.isneginf(bias)
    if not hides.any():
        return bias, None, ()
    said = note("bias-hides", f"{label} holds −inf: there it is read as an additive mask")
    zero = bias.dtype.type(0)
    return np.where(hides, zero, bias), np.where(hides, bias, zero), (said,)


def _sum(arrays: list[Array]) -> Array | None:
    """The sum in float64, where two of finfo(float32).min still are finite; one stays as it is."""
    if len(arrays) < 2:
        return arrays[0] if arrays else None
    with np.errstate(over="ignore", invalid="ignore"):
        return reduce(np.add, [array.astype(np.float64) for array in arrays])


# An option that has nothing to act on is a mistake; a setting of the file may stand idle.


def _check_means_told(roles: Roles, asked: Asked) -> None:
    told = asked.choices.mask_means is not None and "mask_means" not in asked.from_file
    if told and not any(role in roles for role in OPEN):
        raise InputError(
            f"{option('mask_means')} says how an array called {' or '.join(OPEN)} is read, and "
            "there is none"
        )


def _check_axes_told(seen: Sequence[str], asked: Asked) -> None:
    told = None if "mask_axes" in asked.from_file else asked.choices.mask_axes
    if told is not None and told not in seen:
        has = f"the masks have ({'), ('.join(seen)})" if seen else "there is no mask array"
        raise InputError(f"{option('mask_axes')} is {told}, and {has}")
