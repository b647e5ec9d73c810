"""Token vectors → q, k and v: without projections Q = K = V = x, split into heads."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import note
from attn_cli.core.layer import split_heads
from attn_cli.errors import InputError
from attn_cli.recognize.numbers import real
from attn_cli.recognize.question import Question
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked

Array = NDArray[Any]


def from_vectors(roles: Roles, asked: Asked, second: Roles | None) -> Question:
    """The question that token vectors ask.

    `second` holds the sequence that is attended to, as its x, where it is a file of its own; one in
    the same file is called context. Raises InputError where the vectors do not fit together.
    """
    if asked.choices.layout == "blhd":
        raise InputError(
            f"{asked.origin('layout')} is blhd: a layout is that of 4-D q, k and v, and "
            f"{roles.label('x')} holds token vectors",
        )
    x = token_vectors(roles.array("x"), roles.label("x"))
    other, label, dtype = _context(roles, second)
    heads = asked.choices.heads or 1
    _check_kv_heads(asked, heads)
    q = split_heads(x, heads)
    dtypes = {roles.label("x"): roles.dtype("x")}
    if other is None:
        said = note("no-projections", f"no projections: Q = K = V = {_name(roles)}{_split(q)}")
        return Question("token vectors", q, q, q, x, dtypes, findings=(said,))
    _check_context(x, other, label)
    kv = split_heads(other, heads)
    said = note(
        "no-projections",
        f"no projections: Q = {_name(roles)}, K = V = {label}{_split(q)}",
    )
    dtypes[label] = dtype
    return Question("token vectors", q, kv, kv, x, dtypes, cross=True, findings=(said,))


def token_vectors(array: Array, label: str) -> Array:
    """The array as floats (B, L, d_model); InputError where it is not (B, L, d) or (L, d)."""
    numbers = real(array, label)
    if numbers.ndim not in (2, 3):
        hint = "4-D arrays are read as q, k and v: give them under these names"
        raise InputError(
            f"{label} has shape {array.shape}: expected token vectors, (length, d_model) or "
            "(batch, length, d_model)",
            hint=hint if array.ndim == 4 else "",
        )
    return numbers if numbers.ndim == 3 else numbers[None]


def _context(roles: Roles, second: Roles | None) -> tuple[Array | None, str, str]:
    if second is None:
        if "context" not in roles:
            return None, "", ""
        label = roles.label("context")
        return token_vectors(roles.array("context"), label), label, roles.dtype("context")
    if "context" in roles:
        raise InputError(
            f"{roles.label('context')} in the file and {second.dump.source} are both the context",
            hint="leave out --context, or take the context out of the file",
        )
    label = f"context {second.dump.source}"
    return token_vectors(second.array("x"), label), label, second.dtype("x")


def _check_kv_heads(asked: Asked, heads: int) -> None:
    kv_heads = asked.choices.kv_heads
    if kv_heads is not None and kv_heads != heads:
        raise InputError(
            f"{asked.origin('kv_heads')} is {kv_heads} and heads is {heads}: token vectors without "
            "projections have as many key/value heads as heads",
            hint="fewer key/value heads need q, k and v",
        )


def _check_context(x: Array, other: Array, label: str) -> None:
    if other.shape[2] != x.shape[2]:
        raise InputError(
            f"{label} has vectors of width {other.shape[2]} and the token vectors have width "
            f"{x.shape[2]}: q · kᵀ needs equal widths"
        )
    if other.shape[0] != x.shape[0]:
        raise InputError(
            f"{label} has {other.shape[0]} batch items and the token vectors have {x.shape[0]}: "
            "they must be equal"
        )


def _name(roles: Roles) -> str:
    return "x" if roles.dump.unnamed else roles.label("x")


def _split(q: Array) -> str:
    heads, width = q.shape[1], q.shape[3]
    return f", split into {heads} heads of {width}" if heads > 1 else ""
