"""Right: what a case must give, and how far right code in its precision may be off from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.checks.edges.case import Case
from attn_cli.core.budget import least_budget, measure_budget
from attn_cli.core.engine import Ask
from attn_cli.engines import ENGINES

Array = NDArray[Any]
STAGES = ("weights", "context")
ORACLE = "the float64 oracle"


@dataclass(frozen=True, eq=False)
class Right:
    """What is right on a case, in float64, and where from; each part is found when it is asked for.

    `output` (B, H, L, d_v) and `weights` (B, H, L, S) come from the closed form where the case has
    one, else from the numpy engine in float64. The oracle's empty rows play no part: what they must
    be is said by `empty` (B, H, L); `visible` (B, H, L, S) says which keys take part.
    """

    case: Case

    @property
    def words(self) -> str:
        """Where it is from."""
        return ORACLE if self.case.expected is None else self.case.expected.words

    @cached_property
    def oracle(self) -> Mapping[str, Array]:
        """The numpy engine's answer in float64."""
        trace = ENGINES["numpy"].run(self.case.inputs, Ask(keep=frozenset(STAGES)))
        return {name: trace[name] for name in STAGES}

    @property
    def output(self) -> Array:
        closed = self.case.expected
        return self.oracle["context"] if closed is None else closed.output

    @property
    def weights(self) -> Array:
        closed = self.case.expected
        said = None if closed is None else closed.weights
        return self.oracle["weights"] if said is None else said

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        seen = self.case.inputs.visible()
        return np.ones(self.case.inputs.shape, bool) if seen is None else seen

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        return np.asarray(~self.visible.any(-1))

    @cached_property
    def least(self) -> Mapping[str, Array]:
        """What the budget is at least, found at once: within it, nothing has to be measured."""
        return self._budget(least_budget(self.oracle, dtype=self.case.dtype))

    @cached_property
    def budget(self) -> Mapping[str, Array]:
        """The budget measured on the case (`core/budget.py`): the largest of all items and heads.

        Of a few numbers some come out exact by luck, in every plain run of one head. Where the
        closed form must be met to the last bit it is 0.
        """
        if self._exact:
            return self.least
        return self._budget(measure_budget(self.case.inputs, self.oracle, dtype=self.case.dtype))

    @property
    def _exact(self) -> bool:
        return self.case.expected is not None and self.case.expected.exact

    def _budget(self, measured: Mapping[str, Array]) -> Mapping[str, Array]:
        if self._exact:
            return dict.fromkeys(STAGES, np.zeros(()))
        return {name: measured[name].max(keepdims=True) for name in STAGES}


def right_of(case: Case) -> Right:
    """What is right on a case."""
    return Right(case)
