"""Tables: learned positions and relative biases that a file brings along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError, MisfitError
from attn_cli.positions.declaration import Table
from attn_cli.recognize.listing import fit_to_print
from attn_cli.recognize.numbers import real

Array = NDArray[Any]

# A module's name, with or without ".weight" behind it and others before it.
WORDS: Mapping[Table, tuple[str, ...]] = {
    "positions": (
        "positions",
        "position_table",
        "position_embeddings",
        "position_embedding",
        "positional_embedding",
        "embed_positions",
        "pos_embedding",
        "pos_embed",
        "wpe",
    ),
    "relative": ("relative_attention_bias", "relative_bias_table", "relative"),
}
# The name of each in a file that attn writes.
SAVED_AS: Mapping[Table, str] = {
    "positions": "position_embeddings",
    "relative": "relative_attention_bias",
}
SHAPES: Mapping[Table, str] = {
    "positions": "(positions, d_model)",
    "relative": "(buckets, heads)",
}


@dataclass(frozen=True, slots=True)
class FoundTable:
    """One table of a file; `label` is how a message names it."""

    label: str
    dtype: str
    array: Array


def find_table(dumps: Sequence[Dump], table: Table) -> FoundTable | None:
    """The table of one of the files, the input first; None where none has it.

    Raises InputError where two are found.
    """
    found = [(dump, name) for dump in dumps for name in table_names(dump, table)]
    if len(found) > 1:
        names = " and ".join(f"{fit_to_print(name)} of {dump.source}" for dump, name in found[:2])
        raise InputError(f"there are {len(found)} tables of positions: {names}: expected one")
    if not found:
        return None
    ((dump, name),) = found
    label = fit_to_print(name) if dump is dumps[0] else f"{fit_to_print(name)} of {dump.source}"
    return FoundTable(label, dump.dtypes[name], dump.arrays[name])


def table_names(dump: Dump, *tables: Table) -> list[str]:
    """The arrays of a file that are called like one of these tables."""
    words = {_plain(word) for table in tables for word in WORDS[table]}
    return [name for name in dump.arrays if _module(name) in words]


def positions_table(found: FoundTable, d_model: int) -> Array:
    """The table as floats (positions, d_model); a batch axis of 1 is dropped."""
    array = found.array[0] if found.array.ndim == 3 and len(found.array) == 1 else found.array
    if array.ndim != 2 or array.shape[1] != d_model:
        raise MisfitError(
            f"{found.label} has shape {found.array.shape}: expected learned positions "
            f"(positions, d_model {d_model})"
        )
    return real(array, found.label)


def relative_table(found: FoundTable, heads: int) -> Array:
    """The table as floats (buckets, H)."""
    if found.array.ndim != 2 or found.array.shape[1] != heads:
        raise MisfitError(
            f"{found.label} has shape {found.array.shape}: expected a relative bias "
            f"(buckets, {heads} heads)",
            hint="--heads says how many there are" if found.array.ndim == 2 else "",
        )
    return real(found.array, found.label)


def unused_tables(dumps: Sequence[Dump], used: Table | None) -> tuple[Finding, ...]:
    """A note for every table that stands there and is not asked for."""
    asks: Mapping[Table, str] = {"positions": "learned", "relative": "relative"}
    findings = []
    for table, scheme in asks.items():
        names = [name for dump in dumps for name in table_names(dump, table)]
        if names and table != used:
            said = f"{fit_to_print(names[0])} is not used: --positions {scheme} asks for it"
            findings.append(note("positions-unused", said))
    return tuple(findings)


def _module(name: str) -> str:
    parts = re.split(r"[./:]", name)
    if parts[-1].lower() == "weight" and len(parts) > 1:
        parts.pop()
    return _plain(parts[-1])


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()
