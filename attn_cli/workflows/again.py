"""Again: the weights of some rows of a run that kept none, made once more, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.rows import top_keys
from attn_cli.core.trace import SCORE_AXES, SCORE_STAGES, Stage
from attn_cli.errors import UnsupportedError
from attn_cli.workflows.selection import Selection
from attn_cli.workflows.tables import At, Best

if TYPE_CHECKING:
    from attn_cli.checks import torch_again
    from attn_cli.checks.numerics.torch_blocks import Block

Array = NDArray[Any]

MOST = 1 << 24  # numbers of one stage that are made again


class Again:
    """The rows of one run, made again when they are asked for."""

    def __init__(self, inputs: AttentionInputs, dtype: str) -> None:
        self.inputs, self.dtype = inputs, dtype

    @cached_property
    def _made(self) -> torch_again.Again:
        from attn_cli.checks import torch_again

        return torch_again.Again(self.inputs, self.dtype)

    def blocks(self, batch: int, head: int, rows: Array) -> Iterator[Block]:
        """The stages from scores to weights (n, S) of these rows of one head, block by block."""
        return self._made.blocks(batch, head, rows)

    def best(self, rows: Iterable[At], count: int) -> Best:
        """The best keys of some rows, looked for now."""
        from attn_cli.torch_arrays import to_numpy

        found: dict[At, list[tuple[int, float]]] = {}
        for (batch, head), queries in _by_head(rows).items():
            for block in self.blocks(batch, head, np.array(queries)):
                masked, weights = (to_numpy(block.stages[name]) for name in ("masked", "weights"))
                top = top_keys(masked, weights, block.visible, count)
                for query, keys, shares in zip(
                    block.rows.tolist(), top.keys.tolist(), top.weights.tolist(), strict=True
                ):
                    found[batch, head, query] = list(zip(keys, shares, strict=True))
        return found.__getitem__


def _by_head(rows: Iterable[At]) -> dict[tuple[int, int], list[int]]:
    """The queries of every (item, head), each once."""
    queries: dict[tuple[int, int], set[int]] = {}
    for batch, head, query in rows:
        queries.setdefault((batch, head), set()).add(query)
    return {pair: sorted(some) for pair, some in queries.items()}


def lacking(names: frozenset[str], known: frozenset[str]) -> list[str]:
    """The stages over query and key that are wanted and that an engine in tiles does not know."""
    return [name for name in SCORE_STAGES if name in names and name not in known]


def check_few(selection: Selection, keys: int, names: list[str], engine: str) -> None:
    """UnsupportedError where the chosen rows have too many numbers to be made again."""
    pairs, queries = len(selection.pairs), len(selection.queries)
    if names and pairs * queries * keys > MOST:
        raise UnsupportedError(
            f"engine {engine} holds no query × key matrix, and {names[0]} of {pairs * queries:,} "
            f"rows has {pairs * queries * keys:,} numbers: at most {MOST:,} are made again",
            hint="choose rows: --query 0,100-110, and heads: --head 0",
        )


def stages_again(
    again: Again, selection: Selection, names: list[str]
) -> tuple[dict[str, Stage], list[Finding]]:
    """The named stages of the chosen rows, (items, heads, queries, keys), and a note of it."""
    if not names:
        return {}, []
    from attn_cli.torch_arrays import to_numpy

    keys, rows = again.inputs.shape[3], np.array(selection.queries)
    shape = (len(selection.items), len(selection.heads), len(rows), keys)
    held = {name: np.empty((len(selection.pairs), len(rows), keys)) for name in names}
    for place, (batch, head) in enumerate(selection.pairs):
        at = 0
        for block in again.blocks(batch, head, rows):
            for name in names:
                held[name][place, at : at + len(block.rows)] = to_numpy(block.stages[name])
            at += len(block.rows)
    kept = np.float64 if again.dtype == "float64" else np.float32
    stages = {
        name: Stage(array.reshape(shape).astype(kept, copy=False), SCORE_AXES, again.dtype)
        for name, array in held.items()
    }
    said = note(
        "made-again",
        f"{', '.join(names)} of the chosen rows: made again for them alone, by plain operations in "
        f"{again.dtype}",
    )
    return stages, [said]
