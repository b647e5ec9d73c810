"""StageKeeper: an observer that keeps chosen stages of chosen layers and heads as arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.statistics import Array
from attn_cli.core.trace import STAGES
from attn_cli.errors import InputError
from attn_cli.models.hf.blocks import rows_of, stages_of
from attn_cli.models.hf.call import AttentionCall
from attn_cli.torch_arrays import to_numpy


class StageKeeper:
    """Stages by place: (B, H', L, S), and context (B, H', L, d_v); H' are the chosen heads.

    A stage that a call does not show is absent. `layers` and `heads` None keep all of them;
    `limit` is the most bytes that are kept, and more than that is InputError.
    """

    def __init__(
        self,
        stages: Collection[str] = STAGES,
        *,
        layers: Collection[int] | None = None,
        heads: Sequence[int] | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        limit: int = 4 << 30,
    ) -> None:
        self.stages, self.layers, self.heads = frozenset(stages), layers, heads
        self.dtype, self.left = np.dtype(dtype), limit
        self.kept: dict[CallPlace, dict[str, Array]] = {}

    def see(self, call: AttentionCall) -> None:
        """Keeps the stages of one call, if its layer is wanted."""
        if self.layers is not None and call.facts.layer not in self.layers:
            return
        self._check(call)
        blocks: dict[str, list[Array]] = {}
        for rows in rows_of(call):
            for name, stage in stages_of(call, rows, heads=self.heads, wanted=self.stages).items():
                blocks.setdefault(name, []).append(to_numpy(stage).astype(self.dtype))
        self.kept[call.facts.place] = {
            name: np.concatenate(parts, 2) for name, parts in blocks.items()
        }

    def _check(self, call: AttentionCall) -> None:
        facts = call.facts
        heads = range(facts.heads) if self.heads is None else self.heads
        wrong = next((head for head in heads if not 0 <= head < facts.heads), None)
        if wrong is not None:
            raise InputError(
                f"there is no head {wrong} in {facts.place}: it has {facts.heads} (0 to "
                f"{facts.heads - 1})"
            )
        matrix = facts.batch * len(heads) * facts.queries * facts.keys
        self.left -= matrix * len(self.stages) * self.dtype.itemsize
        if self.left < 0:
            raise InputError(
                f"the stages of {facts.place} and those before it do not fit",
                hint="narrow them with --layer and --head",
            )
