"""q, k and v → the question they ask, with the token vectors that a saved trace has beside them."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.recognize.layout import four_axes
from attn_cli.recognize.numbers import real
from attn_cli.recognize.question import Question, grouped
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked

Array = NDArray[Any]


def from_qkv(roles: Roles, asked: Asked) -> Question:
    """The question that q, k and v ask; InputError where they do not fit together."""
    q, k, v = (real(roles.array(role), roles.label(role)) for role in ("q", "k", "v"))
    (q, k, v), findings = four_axes((q, k, v), roles, asked)
    x, said = _token_vectors(q, roles)
    return Question(
        kind="q, k, v",
        q=q,
        k=k,
        v=v,
        x=x,
        dtypes={roles.label(role): roles.dtype(role) for role in ("q", "k", "v")},
        cross="context" in roles,
        layout=asked.choices.layout or "bhld",
        findings=(*findings, *grouped(q.shape[1], k.shape[1]), *said),
    )


def _token_vectors(q: Array, roles: Roles) -> tuple[Array | None, tuple[Finding, ...]]:
    if "x" not in roles:
        return None, ()
    label = roles.label("x")
    array = roles.array("x")
    batched = array[None] if array.ndim == 2 else array
    fits = batched.ndim == 3 and batched.shape[:2] == (q.shape[0], q.shape[2])
    if not fits or array.dtype.kind not in "fiu" or 0 in array.shape:
        said = f"{label} {array.shape} is not used: q, k and v are, and it does not fit them"
        return None, (note("x-beside-qkv", said),)
    said = f"q, k and v are used as they stand; {label} is only kept, so the output is merged"
    return real(batched, label), (note("x-beside-qkv", said),)
