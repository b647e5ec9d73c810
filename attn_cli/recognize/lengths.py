"""Lengths: how many keys of each batch item are real; the rest is padding, and hidden."""

from __future__ import annotations

import numpy as np

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.roles import Roles


def key_lengths(
    roles: Roles, second: Roles | None, *, batch: int, keys: int, cross: bool
) -> tuple[tuple[int, ...] | None, tuple[Finding, ...]]:
    """One length a batch item, or None, and the note that says what they hide.

    In cross-attention they are the second sequence's: `context_lengths`, or the `lengths` of
    its own file. Raises InputError for what is no count of keys.
    """
    found = _source(roles, second, cross=cross)
    if found is None:
        return None, ()
    source, role = found
    lengths = _counts(source, role, batch=batch, keys=keys)
    said = f"{source.label(role)} {_shown(lengths)}: the keys behind are padding, and hidden"
    return lengths, (note("lengths", said),)


def _source(roles: Roles, second: Roles | None, *, cross: bool) -> tuple[Roles, str] | None:
    if not cross:
        both = [role for role in ("lengths", "context_lengths") if role in roles]
        if len(both) == 2:
            raise InputError("the file has lengths twice, of the sequence and of its keys")
        return (roles, both[0]) if both else None
    if "lengths" in roles:
        raise InputError(
            f"{roles.label('lengths')} stands beside two sequences: whose are they?",
            hint="call those of the attended sequence context_lengths; others hide nothing",
        )
    if "context_lengths" in roles:
        return roles, "context_lengths"
    return (second, "lengths") if second is not None and "lengths" in second else None


def _counts(roles: Roles, role: str, *, batch: int, keys: int) -> tuple[int, ...]:
    label, array = roles.label(role), roles.array(role)
    if array.dtype.kind not in "iuf" or array.size not in (1, batch) or array.ndim > 1:
        raise MisfitError(
            f"{label} has shape {array.shape} and dtype {array.dtype}: expected one whole number "
            f"for each of {batch} batch items"
        )
    values = array.reshape(-1).tolist()
    for item, value in enumerate(values):
        if not np.isfinite(value) or value != int(value) or not 0 <= value <= keys:
            raise MisfitError(
                f"{label} is {value:g} at item {item}: expected a whole number from 0 to the "
                f"{keys} keys"
            )
    lengths = tuple(int(value) for value in values)
    return lengths if len(lengths) == batch else lengths * batch


def _shown(lengths: tuple[int, ...]) -> str:
    first = ", ".join(map(str, lengths[:8]))
    return first if len(lengths) <= 8 else f"{first}, …"
