"""The Statistic protocol: one number a row, as expectations under the row's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

Array = NDArray[Any]

# g(q_pos, k_pos) with q_pos (L, 1) and k_pos (S,). Written with arithmetic, comparison and abs()
# alone, so that numpy arrays and torch tensors both pass through it.
Term = Callable[[Any, Any], Any]


@runtime_checkable
class LinearTerm(Protocol):
    """A term that can say where it is constant + by_query·q_pos + by_key·k_pos.

    `by_distance`: it depends on k_pos − q_pos alone, so tiles that lie alike have the same values.
    """

    by_distance: bool

    def __call__(self, q_pos: Any, k_pos: Any) -> Any: ...

    def linear(self, queries: range, keys: range) -> tuple[int, int, int] | None:
        """(constant, by_query, by_key) in a tile of positions; None where it is not linear."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RowSums:
    """What one pass over the keys leaves of every row; all arrays (B, H, L).

    With p = exp(score − m), m the row's maximum and Z = Σ p (plus the sink's share):
    `maximum` m over the keys, `lse` = m + ln Z, `log_z` = ln Z (lse − m without the rounding of a
    large m), `weight_sum` = Σ w of the weights as they multiply v
    (rounded to the precision), `shifted` = Σ w·(score − m), `expected[name]` = Σ w·g, `visible` the
    number of keys that are counted as visible, `empty` where no key takes part: there m and lse are
    −inf, log_z is NaN and every sum is 0. Of an engine that shows its weights and no scores,
    `maximum` and `lse` are NaN.
    `aligned` is False where query and key positions have no common origin.
    """

    maximum: Array
    lse: Array
    log_z: Array
    weight_sum: Array
    shifted: Array
    expected: Mapping[str, Array]
    visible: Array
    empty: Array
    aligned: bool


class Statistic(Protocol):
    """One number a row. `terms` names the functions whose expectation under the weights it needs.

    An engine accumulates Σ exp(score − m)·g and rescales it exactly as it rescales the output; the
    statistic never sees the rescaling. `finish` gives (B, H, L), NaN where it is not defined (an
    empty row, except for sums and counts).
    """

    name: str
    title: str
    unit: str
    terms: Mapping[str, Term]

    def finish(self, rows: RowSums) -> Array: ...
