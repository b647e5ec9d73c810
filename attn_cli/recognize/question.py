"""Question: q, k and v in attn's layout, and what is known of where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.core.layer import Origin
from attn_cli.core.results import Kind
from attn_cli.core.settings import Layout
from attn_cli.recognize.layer import Layer

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v) as floats; x (B, L, d_model) if any.

    `dtypes` maps the arrays that count, as a message names them, to their precision in the file.
    `cross`: queries and keys are two sequences, whose positions have no common origin. `origin`
    says how token vectors became q, k and v where more was done than splitting them; `layer` where
    its projections came from.
    """

    kind: Kind
    q: Array
    k: Array
    v: Array
    x: Array | None
    dtypes: Mapping[str, str]
    layout: Layout = "bhld"
    cross: bool = False
    origin: Origin | None = None
    layer: Layer | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S): the shape of the scores."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]


def grouped(heads: int, kv_heads: int) -> tuple[Finding, ...]:
    """The note that says which key/value head a query head reads, where they share them."""
    if heads == kv_heads or heads % kv_heads:
        return ()
    each = heads // kv_heads
    return (note("grouped-heads", f"query head h reads key/value head h // {each}"),)
