"""Layout: two, three or four axes of q, k and v → (B, H, L, d)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.core.layer import split_heads
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked

Array = NDArray[Any]
Three = tuple[Array, Array, Array]  # q, k, v

_EXPECTED = "(length, width), (batch, length, width) or (batch, head, length, width)"


def four_axes(arrays: Three, roles: Roles, asked: Asked) -> tuple[Three, tuple[Finding, ...]]:
    """q, k and v as (B, H, L, d), and what is said of the reading.

    Three axes are (B, L, d), except where the leading sizes differ and q's is a multiple of k's:
    then (H, L, d). Raises InputError where axes, widths, heads or layout do not fit.
    """
    _check_axes(arrays, roles)
    axes = arrays[0].ndim
    if axes == 4:
        return _four(arrays, roles, asked)
    if asked.choices.layout == "blhd":
        raise InputError(
            f"{asked.origin('layout')} is blhd, (batch, length, head, width), and "
            f"{roles.label('q')} has {axes} axes, {arrays[0].shape}",
            hint="--heads splits the width of 2-D and 3-D arrays into heads",
        )
    if axes == 2:
        q, k, v = arrays
        return _split((q[None], k[None], v[None]), roles, asked), ()
    return _three(arrays, roles, asked)


def _check_axes(arrays: Three, roles: Roles) -> None:
    labels = [roles.label(role) for role in ("q", "k", "v")]
    for array, label in zip(arrays, labels, strict=True):
        if array.ndim not in (2, 3, 4):
            raise MisfitError(f"{label} has shape {array.shape}: expected {_EXPECTED}")
    if len({array.ndim for array in arrays}) > 1:
        shapes = ", ".join(
            f"{label} {array.shape}" for array, label in zip(arrays, labels, strict=True)
        )
        raise MisfitError(
            f"the numbers of axes differ: {shapes}",
            hint=f"give all three as {_EXPECTED}",
        )


def _four(arrays: Three, roles: Roles, asked: Asked) -> tuple[Three, tuple[Finding, ...]]:
    layout = asked.choices.layout
    if layout == "blhd":
        q, k, v = (array.swapaxes(1, 2) for array in arrays)
        arrays = q, k, v
    _check_heads(arrays, roles, asked)
    if layout is not None or roles.names["q"] in roles.dump.axes:  # then attn has saved them
        return arrays, ()
    message = "read as (batch, head, length, width); --layout blhd reads (batch, length, head, …)"
    return arrays, (note("layout", f"{_all(roles)} are {message}"),)


def _three(arrays: Three, roles: Roles, asked: Asked) -> tuple[Three, tuple[Finding, ...]]:
    q, k, v = arrays
    first, second = q.shape[0], k.shape[0]
    if first == second:
        said = note("layout", f"{_all(roles)} are read as (batch, length, width)")
        return _split(arrays, roles, asked), (said,)
    if first % second:
        raise MisfitError(
            f"{roles.label('q')} has shape {q.shape} and {roles.label('k')} has shape {k.shape}: "
            "the first of three axes is the batch, equal in both, or the heads, of which q has a "
            "multiple of k's",
        )
    heads = q[None], k[None], v[None]
    _check_heads(heads, roles, asked)
    message = f"are read as (head, length, width): {first} query heads for {second} of key/value"
    return heads, (note("layout", f"{_all(roles)} {message}"),)


def _split(arrays: Three, roles: Roles, asked: Asked) -> Three:
    q, k, v = arrays
    heads, kv_heads = _head_counts(q.shape[2], k.shape[2], roles, asked)
    _check_counts(heads, kv_heads, q.shape[2], k.shape[2])
    return (
        split_heads(q, heads, what=f"the width of {roles.label('q')},"),
        split_heads(k, kv_heads, what=f"the width of {roles.label('k')},"),
        split_heads(v, kv_heads, what=f"the width of {roles.label('v')},"),
    )


def _head_counts(q_width: int, k_width: int, roles: Roles, asked: Asked) -> tuple[int, int]:
    """(H, Hkv): what was asked for; else from the width that a head of q and of k shares."""
    heads, kv_heads = asked.choices.heads, asked.choices.kv_heads
    if heads is not None:
        return heads, kv_heads or _fitting("k", k_width, "q", q_width, heads, roles)
    if kv_heads is not None:
        return _fitting("q", q_width, "k", k_width, kv_heads, roles), kv_heads
    return 1, 1


def _check_counts(heads: int, kv_heads: int, q_width: int, k_width: int) -> None:
    if heads % kv_heads:
        raise MisfitError(
            f"q is split into {heads} heads and k into {kv_heads}: the query heads must be a "
            "multiple of the key/value heads"
        )
    if heads == 1 and q_width > k_width and q_width % k_width == 0:
        raise MisfitError(
            f"q has width {q_width} and k has width {k_width}: q · kᵀ needs equal widths",
            hint="are they several heads side by side? then pass --heads and --kv-heads",
        )


def _fitting(role: str, width: int, other: str, other_width: int, heads: int, roles: Roles) -> int:
    """How many heads of `width` are as wide as those of the other array, cut into `heads`."""
    if other_width % heads:
        return heads  # split_heads says which counts work
    each = other_width // heads
    if width % each:
        raise MisfitError(
            f"{roles.label(other)} has width {other_width}, {heads} heads of {each}; "
            f"{roles.label(role)} has width {width}, which is no multiple of {each}",
        )
    return width // each


def _check_heads(arrays: Three, roles: Roles, asked: Asked) -> None:
    for name, role, array in (("heads", "q", arrays[0]), ("kv_heads", "k", arrays[1])):
        wanted = getattr(asked.choices, name)
        if wanted is not None and wanted != array.shape[1]:
            raise MisfitError(
                f"{asked.origin(name)} is {wanted}, and {roles.label(role)} already has "
                f"{array.shape[1]} heads: {roles.array(role).shape}",
                hint="is the layout (batch, length, head, width)? then pass --layout blhd"
                if array.shape[2] == wanted
                else "",
            )


def _all(roles: Roles) -> str:
    q, k, v = (roles.label(role) for role in ("q", "k", "v"))
    return f"{q}, {k} and {v}"
