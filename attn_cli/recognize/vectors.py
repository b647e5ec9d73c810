"""Token vectors → q, k and v: through projections, or x itself, split into heads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.blank import Blank
from attn_cli.core.findings import Finding, note
from attn_cli.core.layer import Origin, make_qkv, split_heads
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.layer import Layer
from attn_cli.recognize.numbers import real
from attn_cli.recognize.origin import speaking_of_another
from attn_cli.recognize.parameters import Parameters
from attn_cli.recognize.positions import Encodings, Positioning, encodings, without_numbers
from attn_cli.recognize.question import Question, grouped
from attn_cli.recognize.roles import Roles
from attn_cli.recognize.settings import Asked
from attn_cli.recognize.sources import one_source

Array = NDArray[Any]


def from_vectors(
    roles: Roles,
    asked: Asked,
    second: Roles | None,
    *,
    positions: Positioning,
    weights: Parameters | None = None,
) -> Question:
    """The question that token vectors ask, through positions and projections where there are any.

    `second` holds the sequence that is attended to, as its x, where it is a file of its own; one in
    the same file is called context. `weights` are the matrices of a file of their own. Raises
    InputError where the vectors do not fit together, or the projections do not fit them.
    """
    if asked.choices.layout == "blhd":
        raise InputError(
            f"{asked.origin('layout')} is blhd: a layout is that of 4-D q, k and v, and "
            f"{roles.label('x')} holds token vectors",
        )
    sequences = _sequences(roles, second)
    layer = _layer(sequences, roles, asked, weights)
    added = _encodings(sequences, positions, asked)
    if layer is None:
        _check_plain(sequences, asked)
    origin = _origin(sequences, layer, added, asked)
    made = layer is not None or added is not None
    q, k, v = make_qkv(origin) if made else _split(sequences, origin.heads)
    return Question(
        kind="token vectors",
        q=q,
        k=k,
        v=v,
        x=sequences.x,
        dtypes={**sequences.dtypes, **({} if layer is None else layer.dtypes)},
        cross=sequences.context is not None,
        origin=origin if made else None,
        layer=layer,
        findings=(
            *(() if added is None else added.findings),
            *_of_layer(layer, sequences, q, positioned=added is not None),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """x (B, L, d_model), and the sequence attended to where it is another; names for messages."""

    x: Array
    context: Array | None
    name: str
    context_name: str
    dtypes: Mapping[str, str]

    @property
    def attended(self) -> Array:
        return self.x if self.context is None else self.context


def _sequences(roles: Roles, second: Roles | None) -> Sequences:
    x = token_vectors(roles.array("x"), roles.label("x"))
    context, label, dtype = _context(roles, second)
    dtypes = {roles.label("x"): roles.dtype("x")}
    if context is not None:
        dtypes[label] = dtype
        _check_batch(x, context, label)
    name = "x" if roles.dump.unnamed else roles.label("x")
    return Sequences(x, context, name, label or name, dtypes)


def _layer(
    sequences: Sequences, roles: Roles, asked: Asked, weights: Parameters | None
) -> Layer | None:
    """The projections: those of a file of their own, of this file, or drawn; None without any."""
    d_model, d_context = sequences.x.shape[2], sequences.attended.shape[2]
    parameters = one_source(roles, asked, weights)
    if parameters is not None:
        from attn_cli.recognize.projections import read_projections  # most runs need neither

        own = parameters is roles.layer
        with nullcontext() if own else speaking_of_another(parameters.dump.source):
            return read_projections(parameters, d_model=d_model, d_context=d_context, asked=asked)
    if asked.choices.init is not None:
        from attn_cli.recognize.drawn import draw_projections

        return draw_projections(
            asked.choices.init,
            d_model=d_model,
            d_context=d_context,
            asked=asked,
            shapes_only=isinstance(sequences.x, Blank),
        )
    return None


def _encodings(sequences: Sequences, positions: Positioning, asked: Asked) -> Encodings | None:
    """What is added to the vectors; queries stand where --align puts them, else both from 0."""
    queries, keys = sequences.x.shape[1], sequences.attended.shape[1]
    start = keys - queries if asked.choices.align == "lower-right" else 0
    if isinstance(sequences.x, Blank):
        positions = without_numbers(positions)
    at = range(start, start + queries)
    if sequences.context is None:
        return encodings(positions, (sequences.x.shape[2], None), (at, None))
    widths = sequences.x.shape[2], sequences.context.shape[2]
    return encodings(positions, widths, (at, range(keys)))


def _origin(
    sequences: Sequences, layer: Layer | None, added: Encodings | None, asked: Asked
) -> Origin:
    heads = (asked.choices.heads or 1) if layer is None else layer.widths.heads
    return Origin(
        x=sequences.x,
        heads=heads,
        kv_heads=heads if layer is None else layer.widths.kv_heads,
        context=sequences.context,
        encoding=None if added is None else added.x,
        context_encoding=None if added is None else added.context,
        projections=None if layer is None else layer.projections,
    )


def _split(sequences: Sequences, heads: int) -> tuple[Array, Array, Array]:
    """Q = x and K = V = what is attended to, in the precision of the file."""
    q, kv = split_heads(sequences.x, heads), split_heads(sequences.attended, heads)
    return q, kv, kv


def _of_layer(
    layer: Layer | None, sequences: Sequences, q: Array, *, positioned: bool
) -> tuple[Finding, ...]:
    if layer is not None:
        return (*layer.findings, *grouped(layer.widths.heads, layer.widths.kv_heads))
    plus = " + positions" if positioned else ""
    split = f", split into {q.shape[1]} heads of {q.shape[3]}" if q.shape[1] > 1 else ""
    if sequences.context is None:
        same = f"no projections: Q = K = V = {sequences.name}{plus}{split}"
        return (note("no-projections", same),)
    both = f"Q = {sequences.name}{plus}, K = V = {sequences.context_name}{plus}"
    return (note("no-projections", f"no projections: {both}{split}"),)


def token_vectors(array: Array, label: str) -> Array:
    """The array as floats (B, L, d_model); InputError where it is not (B, L, d) or (L, d)."""
    numbers = real(array, label)
    if numbers.ndim not in (2, 3):
        hint = "4-D arrays are read as q, k and v: give them under these names"
        raise MisfitError(
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


def _check_batch(x: Array, other: Array, label: str) -> None:
    if other.shape[0] != x.shape[0]:
        raise MisfitError(
            f"{label} has {other.shape[0]} batch items and the token vectors have {x.shape[0]}: "
            "they must be equal"
        )


def _check_plain(sequences: Sequences, asked: Asked) -> None:
    """What only projections could make fit, or make sense of."""
    heads, kv_heads = asked.choices.heads or 1, asked.choices.kv_heads
    if kv_heads is not None and kv_heads != heads:
        raise MisfitError(
            f"{asked.origin('kv_heads')} is {kv_heads} and heads is {heads}: token vectors without "
            "projections have as many key/value heads as heads",
            hint="fewer key/value heads need projections (--weights, --init), or q, k and v",
        )
    for name in ("d_k", "d_v"):
        if asked.told(name):
            raise InputError(
                f"{asked.origin(name)} is {getattr(asked.choices, name)}, and there are no "
                "projections: a head's width is then d_model over the heads",
                hint="--init draws projections, --weights reads them",
            )
    if sequences.attended.shape[2] != sequences.x.shape[2]:
        raise MisfitError(
            f"{sequences.context_name} has vectors of width {sequences.attended.shape[2]} and the "
            f"token vectors have width {sequences.x.shape[2]}: q · kᵀ needs equal widths"
        )
