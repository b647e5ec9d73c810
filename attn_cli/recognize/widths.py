"""Widths: how many heads of which width the columns of a layer's matrices are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attn_cli.core.layer import working_head_counts
from attn_cli.errors import InputError, MisfitError
from attn_cli.recognize.parameters import Part
from attn_cli.recognize.settings import Asked


@dataclass(frozen=True, slots=True)
class Widths:
    """H, Hkv, d_k and d_v of a layer."""

    heads: int
    kv_heads: int
    d_k: int
    d_v: int

    @property
    def columns(self) -> dict[str, int]:
        """How many features each of q, k and v has, all heads together."""
        return {
            "q": self.heads * self.d_k,
            "k": self.kv_heads * self.d_k,
            "v": self.kv_heads * self.d_v,
        }


def widths_of(
    out: Mapping[Part, int], labels: Mapping[Part, str], d_model: int, asked: Asked
) -> Widths:
    """The widths that matrices with `out` features have, with what was asked for.

    Raises InputError where a count does not divide, where two things asked for differ, and where
    several readings remain.
    """
    if "qkv" in out:
        widths = _fused(out["qkv"], labels["qkv"], d_model, asked)
    else:
        widths = _separate(out, labels, asked)
    if widths.heads % widths.kv_heads:
        raise MisfitError(
            f"the matrices make {widths.heads} query heads and {widths.kv_heads} key/value heads "
            f"of {widths.d_k}: the query heads must be a multiple of the others",
            hint="--heads says how many there are",
        )
    _check_asked(widths, asked)
    return widths


def default_widths(d_model: int, asked: Asked) -> Widths:
    """The widths of projections that are drawn: d_k is d_model / heads, d_v is d_k, unless told."""
    chosen = asked.choices
    heads = chosen.heads or 1
    kv_heads = chosen.kv_heads or heads
    if heads % kv_heads:
        raise MisfitError(
            f"{asked.origin('kv_heads')} is {kv_heads} and heads is {heads}: the heads must be a "
            "multiple of the key/value heads"
        )
    d_k = chosen.d_k
    if d_k is None:
        d_k = _each(d_model, heads, "d_model", asked)
    return Widths(heads, kv_heads, d_k, chosen.d_v or d_k)


def _separate(out: Mapping[Part, int], labels: Mapping[Part, str], asked: Asked) -> Widths:
    heads, d_k = _query_heads(out, labels, asked)
    if "kv" in out:
        kv_heads, d_v = _of_kv(out["kv"], labels["kv"], heads, d_k, asked)
        return Widths(heads, kv_heads, d_k, d_v)
    kv_heads = _times(out["k"], d_k, f"{labels['k']} makes", "key heads")
    d_v = _each(out["v"], kv_heads, f"the width of {labels['v']},", asked)
    return Widths(heads, kv_heads, d_k, d_v)


def _query_heads(
    out: Mapping[Part, int], labels: Mapping[Part, str], asked: Asked
) -> tuple[int, int]:
    """(H, d_k) from W_q's features and whichever of the two, or Hkv, is told."""
    heads, kv_heads, d_k = asked.choices.heads, asked.choices.kv_heads, asked.choices.d_k
    if heads is None and d_k is None and kv_heads is not None and "k" in out:
        d_k = _each(out["k"], kv_heads, f"the width of {labels['k']},", asked)
    if heads is None and d_k is None:
        if out.get("k", out["q"]) != out["q"]:
            raise InputError(
                f"{labels['q']} makes {out['q']} features and {labels['k']} {out['k']}, so query "
                "heads share key/value heads, and nothing says how many there are",
                hint="pass --heads",
            )
        heads = 1
    if heads is None:
        assert d_k is not None
        heads = _times(out["q"], d_k, f"{labels['q']} makes", "heads")
    return heads, _each(out["q"], heads, f"the width of {labels['q']},", asked)


def _of_kv(columns: int, label: str, heads: int, d_k: int, asked: Asked) -> tuple[int, int]:
    """(Hkv, d_v) of a matrix that makes k and v, k first; d_v is d_k where nothing is told."""
    kv_heads, d_v = asked.choices.kv_heads, asked.choices.d_v
    if kv_heads is None:
        kv_heads = _times(columns, d_k + (d_v or d_k), f"{label} makes", "key/value heads")
    each = _each(columns, kv_heads, f"the width of {label},", asked)
    if each <= d_k:
        raise MisfitError(
            f"{label} makes {columns} features, {each} for each of {kv_heads} key/value heads: "
            f"expected more than their keys' d_k {d_k}"
        )
    return kv_heads, each - d_k


def _fused(columns: int, label: str, d_model: int, asked: Asked) -> Widths:
    """The widths of a matrix that makes q, k and v in this order."""
    heads, kv_heads, d_k, d_v = (
        getattr(asked.choices, name) for name in ("heads", "kv_heads", "d_k", "d_v")
    )
    if kv_heads is None and d_k is None and d_v is None:
        if columns != 3 * d_model:
            raise InputError(
                f"{label} makes {columns} features, not 3 · d_model = {3 * d_model}, so q, k and v "
                "are not three equal parts",
                hint="pass --heads and --kv-heads, or --heads and --d-k",
            )
        each = _each(d_model, heads or 1, "d_model", asked)
        return Widths(heads or 1, heads or 1, each, each)
    if heads is None and kv_heads is None:  # then there are as many of both
        one = 2 * d_k + (d_v or d_k) if d_k is not None else 3 * d_v
        heads = kv_heads = _times(columns, one, f"{label} makes", "heads of q, k and v")
    if heads is None:
        raise InputError(
            f"{label} makes {columns} features for {kv_heads} key/value heads and an unknown "
            "number of query heads",
            hint="pass --heads",
        )
    if d_k is None:
        parts = heads + (kv_heads or heads) * (1 if d_v is not None else 2)
        rest = columns - (kv_heads or heads) * (d_v or 0)
        d_k = _each(rest, parts, f"the width of {label},", asked)
    left = columns - heads * d_k
    if kv_heads is None:
        kv_heads = _times(left, d_k + (d_v or d_k), f"{label} leaves", "key/value heads")
    each = _each(left, kv_heads, f"what {label} leaves for k and v,", asked)
    if each <= d_k:
        raise MisfitError(
            f"{label} makes {columns} features, which {heads} query heads and {kv_heads} key/value "
            f"heads of {d_k} use up: nothing is left for v"
        )
    return Widths(heads, kv_heads, d_k, each - d_k)


def _each(columns: int, count: int, what: str, asked: Asked) -> int:
    """`columns` over `count`; InputError names the counts that work."""
    if columns < 1 or columns % count:
        works = working_head_counts(columns) if 0 < columns < 1 << 20 else ()
        near = sorted(sorted(works, key=lambda work: abs(work - count))[:8])
        raise MisfitError(
            f"{what} {columns} does not split into {count} heads of equal width",
            hint=f"these head counts work: {', '.join(map(str, near))}" if near else "",
        )
    return columns // count


def _times(columns: int, each: int, what: str, of: str) -> int:
    """How often `each` goes into `columns`; InputError where it does not come out even."""
    if columns < 1 or columns % each:
        raise MisfitError(
            f"{what} {columns} features: expected a multiple of {each} for {of}",
            hint="--heads, --kv-heads, --d-k and --d-v say how they are split",
        )
    return columns // each


def _check_asked(widths: Widths, asked: Asked) -> None:
    for name in ("heads", "kv_heads", "d_k", "d_v"):
        wanted, came = getattr(asked.choices, name), getattr(widths, name)
        if wanted is not None and wanted != came:
            raise MisfitError(
                f"{asked.origin(name)} is {wanted}, and the matrices make {widths.heads} heads of "
                f"{widths.d_k} and {widths.kv_heads} key/value heads of {widths.d_k} and "
                f"{widths.d_v}"
            )
