"""Findings about heads: two that look at the same keys in the same way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_cli.core.findings import Finding, Place
from attn_cli.core.trace import Trace

IDENTICAL = 1e-12  # 1 − mean cosine at or below this: weights that differ by a millionth are not


def head_findings(trace: Trace) -> Iterator[Finding]:
    """Heads of one batch item whose weights are the same in every row that has a choice."""
    if trace.cosine is None:
        return
    choice = (trace.stats["visible_keys"] > 1).astype(np.float32)  # (B, H, L)
    for batch, cosine in enumerate(trace.cosine):
        in_common = choice[batch] @ choice[batch].T > 0  # a row in which both have a choice
        same = np.triu((1 - cosine <= IDENTICAL) & in_common, k=1)
        pairs = np.argwhere(same)
        if not len(pairs):
            continue
        first, second = map(int, pairs[0])
        more = f" ({len(pairs) - 1} more such pairs)" if len(pairs) > 1 else ""
        item = f"item {batch}: " if len(trace.cosine) > 1 else ""
        yield Finding(
            "identical-heads",
            "warning",
            f"{item}heads {first} and {second} have the same weights in every row{more}",
            Place(stage="weights", layer=0, batch=batch, head=second),
        )
