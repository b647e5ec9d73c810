"""Question: q, k and v in attn's layout, and what is known of where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.results import Kind
from attn_cli.core.settings import Layout

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v) as floats; x (B, L, d_model) if any.

    `dtypes` maps the arrays that count, as a message names them, to their precision in the file.
    `cross`: queries and keys are two sequences, whose positions have no common origin.
    """

    kind: Kind
    q: Array
    k: Array
    v: Array
    x: Array | None
    dtypes: Mapping[str, str]
    layout: Layout = "bhld"
    cross: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, L, S): the shape of the scores."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]
